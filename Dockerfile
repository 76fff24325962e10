# One image for both: workers (--sdk_container_image) and the launcher of the Flex template. Python and Beam are the launcher's own,
# or the job stops at its first step. Build and push it where the job runs:
#
#   gcloud builds submit --project=PROJECT --region=REGION --tag=REGION-docker.pkg.dev/PROJECT/shardfeed/shardfeed:0.1.0
FROM gcr.io/dataflow-templates-base/python311-template-launcher-base:20230622_RC00 AS template_launcher

FROM apache/beam_python3.11_sdk:2.77.0

# Dependencies first: they change less often than we do. By hash and without resolving, so that two builds of the image agree.
COPY requirements.lock /template/
RUN pip install --no-cache-dir --require-hashes --no-deps --requirement /template/requirements.lock

COPY LICENSE README.md pyproject.toml setup.py /template/source/
COPY shardfeed /template/source/shardfeed
COPY transforms /template/source/transforms
COPY pipeline /template/source/pipeline
RUN pip install --no-cache-dir --no-deps --no-build-isolation /template/source \
    && pip check \
    && cp /template/source/pipeline/dataflow_template.py /template/launch.py \
    && rm -r /template/source \
    && cd / && python -c 'import obstore, cykooz.resizer; import pipeline.build'

COPY --from=template_launcher /opt/google/dataflow/python_template_launcher /opt/google/dataflow/python_template_launcher
ENV FLEX_TEMPLATE_PYTHON_PY_FILE=/template/launch.py

# The user stays Beam's, which is root: Dataflow's boot program writes below /var/opt/google, a folder of root's on the VM. Nothing of
# ours needs it: `docker run --user 65534 --entrypoint shardfeed IMAGE build …` works for builds in a container.
ENTRYPOINT ["/opt/apache/beam/boot"]
