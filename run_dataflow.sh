#!/usr/bin/env bash
# Builds a dataset on Google Cloud Dataflow.
#
#   PROJECT=my-project REGION=us-central1 ./run_dataflow.sh gs://photos gs://datasets/flowers/v1 --image_size 224
#
# Required:  PROJECT          project that runs and pays for the job
#            REGION           region of the workers; take the buckets' own, or every byte crosses regions
# Optional:  WORKERS          most workers that autoscaling may start        (default: Dataflow's)
#            MACHINE_TYPE     such as n2-standard-4                           (default: Dataflow's)
#            SERVICE_ACCOUNT  e-mail of the account that the workers run as  (default: the project's)
#            NETWORK          a network's name, or regions/R/subnetworks/S    (default: "default")
#            IMAGE            worker image with shardfeed installed; nothing is then installed when a worker starts
#            TEMP             gs:// folder for staged files                   (default: shardfeed-tmp in OUTPUT's bucket)
#            PYTHON           interpreter with shardfeed[beam]                (default: .venv/bin/python, else python3)
# Arguments after OUTPUT go to `shardfeed build` as they are.
#
# Only names are checked here. Whether the APIs are on and the accounts may do what they must is Beam's and Dataflow's to say.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

usage() {
  sed -n '/^# Builds/,/^# Only/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | sed '$d'
}

fail() {
  printf 'run_dataflow.sh: %s\n' "$1" >&2
  exit 2
}

# check NAME VALUE PATTERN WHAT: VALUE must match PATTERN from end to end.
check() {
  [[ $2 =~ ^($3)$ ]] || fail "$1 is '$2'; it must be $4."
}

if [[ $# -eq 0 || $1 == -h || $1 == --help ]]; then
  usage
  [[ $# -gt 0 ]] || exit 2
  exit 0
fi
[[ $# -ge 2 ]] || fail "OUTPUT is missing: ./run_dataflow.sh gs://photos gs://datasets/flowers/v1"
input=$1
output=$2
shift 2
: "${PROJECT:?PROJECT is required: the Google Cloud project that runs the job, as in PROJECT=my-project}"
: "${REGION:?REGION is required: the region of the workers, best that of the buckets, as in REGION=us-central1}"

bucket='gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]'
check INPUT "$input" "$bucket(/.*)?" "gs://BUCKET, gs://BUCKET/FOLDER or a glob below one"
check OUTPUT "$output" "$bucket/.+" "gs://BUCKET/FOLDER: the folder that becomes the dataset"
check PROJECT "$PROJECT" '([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]' "a project id, such as my-project (not its number or title)"
check REGION "$REGION" '[a-z]+-[a-z]+[0-9]+' "a region, such as us-central1 (not a zone)"

output_bucket=${output#gs://}
TEMP=${TEMP:-gs://${output_bucket%%/*}/shardfeed-tmp}
check TEMP "$TEMP" "$bucket/.+" "gs://BUCKET/FOLDER"

options=(--runner DataflowRunner --project "$PROJECT" --region "$REGION" --temp_location "$TEMP" --no_save_main_session)
if [[ -n ${WORKERS:-} ]]; then
  check WORKERS "$WORKERS" '[1-9][0-9]{0,3}' "a number from 1 to 9999"
  options+=(--max_num_workers "$WORKERS")
fi
if [[ -n ${MACHINE_TYPE:-} ]]; then
  check MACHINE_TYPE "$MACHINE_TYPE" '[a-z][a-z0-9]*(-[a-z0-9]+)+' "a machine type, such as n2-standard-4"
  options+=(--worker_machine_type "$MACHINE_TYPE")
fi
if [[ -n ${SERVICE_ACCOUNT:-} ]]; then
  check SERVICE_ACCOUNT "$SERVICE_ACCOUNT" '[a-z0-9-]+@[a-z0-9.-]+' "an e-mail, such as workers@my-project.iam.gserviceaccount.com"
  options+=(--service_account_email "$SERVICE_ACCOUNT")
fi
if [[ -n ${NETWORK:-} ]]; then
  check NETWORK "$NETWORK" '[a-z][a-z0-9-]*|(.*/)?regions/[a-z0-9-]+/subnetworks/[a-z][a-z0-9-]*' \
    "a network's name or regions/REGION/subnetworks/NAME"
  if [[ $NETWORK == */* ]]; then
    options+=(--subnetwork "$NETWORK")
  else
    options+=(--network "$NETWORK")
  fi
fi
if [[ -n ${IMAGE:-} ]]; then
  check IMAGE "$IMAGE" '[a-z0-9][a-z0-9./:@_-]*' "an image's address, such as us-docker.pkg.dev/my-project/images/shardfeed:0.1.0"
  options+=(--sdk_container_image "$IMAGE")
else
  options+=(--setup_file "$here/setup.py")
fi

python=${PYTHON:-$here/.venv/bin/python}
[[ -n ${PYTHON:-} || -x $python ]] || python=python3
"$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("apache_beam") is None)' ||
  fail "$python has no Apache Beam. Install it with: $python -m pip install '${here}[beam]'"

export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
exec "$python" -m pipeline build --input "$input" --output "$output" "${options[@]}" "$@"
