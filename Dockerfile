# One image for workers (--sdk_container_image) and for the launcher of the Flex template. Python and Beam must be
# those of the launcher, or the job stops at its first step. Build and push it where the job runs:
#
#   gcloud builds submit --project=PROJECT --region=REGION --tag=REGION-docker.pkg.dev/PROJECT/shardfeed/shardfeed:0.1.0
FROM gcr.io/dataflow-templates-base/python311-template-launcher-base:20230622_RC00 AS template_launcher

FROM apache/beam_python3.11_sdk:2.77.0

# Dependencies first: they change less often than our code. They are installed by hash and without resolving, so that
# two builds of the image agree.
COPY requirements.lock /template/
RUN pip install --no-cache-dir --require-hashes --no-deps --requirement /template/requirements.lock

COPY LICENSE README.md pyproject.toml setup.py /template/source/
COPY shardfeed /template/source/shardfeed
COPY transforms /template/source/transforms
COPY pipeline /template/source/pipeline
RUN pip install --no-cache-dir --no-deps --no-build-isolation /template/source \
    && pip check \
    && cp /template/source/pipeline/dataflow/flex_template.py /template/launch.py \
    && rm -r /template/source \
    && cd / && python -c 'import obstore, simplejpeg, cykooz_resizer, _pi_heif, pylibjxl; import shardfeed.pipeline.graph'

COPY --from=template_launcher /opt/google/dataflow/python_template_launcher /opt/google/dataflow/python_template_launcher
ENV FLEX_TEMPLATE_PYTHON_PY_FILE=/template/launch.py

# No USER: it stays Beam's, which is root, because both programs that start here need it. Dataflow mounts folders of
# root below /var/opt on its workers, and Beam's boot program writes there (pangeo-data/pangeo-docker-images went back
# to root for it in 2022). The Flex launcher ends if it cannot make /var/log/dataflow/template_launcher
# (GoogleCloudPlatform/python-docs-samples has another user's report of 2025). Google documents no other user. Nothing
# of ours asks for root.
ENTRYPOINT ["/opt/apache/beam/boot"]
