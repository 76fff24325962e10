#!/usr/bin/env bash
# Builds a dataset on Google Cloud Dataflow.
#
#   PROJECT=my-project REGION=us-central1 ./run_dataflow.sh gs://photos gs://datasets/flowers/v1 --image_size 224
#
# Required:  PROJECT          id of the project that runs the job and pays for it
#            REGION           region of the workers; take that of the buckets, or every byte crosses regions
# Optional:  WORKERS          most workers that autoscaling may start        (default: Dataflow's)
#            MACHINE_TYPE     such as n2-standard-8                          (default: n2-standard-4)
#            SERVICE_ACCOUNT  e-mail of the account that the workers run as  (default: the project's)
#            NETWORK          name of a network, or regions/R/subnetworks/S  (default: "default")
#            IMAGE            worker image with shardfeed (see Dockerfile)   (default: each worker installs the package)
#            TEMP             gs:// folder for staged files                  (default: shardfeed-tmp in OUTPUT's bucket)
#            PYTHON           interpreter with shardfeed[beam]               (default: .venv/bin/python, else python3)
#            CHECKS=no        do not ask gcloud about the workers
#            PLAN=no          do not forecast, and submit the job whatever the forecast would say
# Arguments after OUTPUT go to `shardfeed build` as they are. --input among them adds another input. Any other flag given
# there wins over the variable for it; gcloud is asked about the variable.
#
# First gcloud is asked about what Dataflow needs to start workers: account, network, machine type, image. Then `shardfeed
# plan` checks flags and buckets, lists the input and encodes a few hundred images here; an input of more than a million
# files gets no forecast, because listing it takes too long. If the plan is sure that nothing would be published, the
# script ends with the job's exit code (3 or 5). Otherwise the job is submitted and followed; its summary and exit code
# are those of a local build.
#
#   PROJECT=… REGION=… IMAGE=… ./run_dataflow.sh --template gs://templates/shardfeed.json
#
# makes a Flex template of IMAGE instead, from which others start jobs in the console or by a schedule.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

note() {
  printf 'run_dataflow.sh: %s\n' "$1" >&2
}

fail() {
  note "$1"
  exit 2
}

# check REFUSAL WANTED WORDS…: ends the script with REFUSAL if gcloud's answer to WORDS lacks the pattern WANTED.
# If gcloud may not or cannot tell, the script goes on: the job then fails later, with a remedy of its own.
check() {
  local refusal=$1 wanted=$2 said code=0
  shift 2
  said=$(gcloud --quiet "$@" 2>&1) || code=$?
  [[ $code -ne 0 || ! $said =~ $wanted ]] || return 0
  # A list that Compute refuses ends with code 0, and a warning that requests did not succeed.
  [[ ($code -ne 0 || $said == *"did not succeed"*) && $said != *"not found"* ]] || fail "$refusal"
  note "gcloud could not tell, so this check is left out: gcloud $*"$'\n'"$said"
}

check_login() {
  command -v gcloud >/dev/null ||
    fail "gcloud is not on PATH. Install it (https://cloud.google.com/sdk/docs/install), or skip what it is asked: CHECKS=no"
  gcloud auth print-access-token >/dev/null ||
    fail "gcloud has no login, or no network; its message is above. Log in: gcloud auth login. Or skip what it is asked: CHECKS=no"
}

check_image() {
  [[ ${IMAGE:-} != *-docker.pkg.dev/* ]] || check "there is no image $IMAGE, or you may not see it. Build it: \
gcloud builds submit --project=$PROJECT --tag=$IMAGE $here" . artifacts docker images describe "$IMAGE"
}

check_workers() {
  local number worker network=(networks describe "${NETWORK:-default}")
  number=$(gcloud projects describe "$PROJECT" '--format=value(projectNumber)') ||
    fail "project $PROJECT does not exist, or you may not see it (then: CHECKS=no). Yours: gcloud projects list"
  worker=${SERVICE_ACCOUNT:-$number-compute@developer.gserviceaccount.com}
  check "the workers' account $worker may not work for Dataflow. Allow it: gcloud projects add-iam-policy-binding $PROJECT \
--member=serviceAccount:$worker --role=roles/dataflow.worker (where it may by a role of its folder, organisation or group: \
CHECKS=no)" 'roles/(dataflow\.worker|editor|owner)' projects get-iam-policy "$PROJECT" '--flatten=bindings[].members' \
    --filter="bindings.members:serviceAccount:$worker" '--format=value(bindings.role)'
  [[ ${NETWORK:-} != */subnetworks/* ]] || network=(networks subnets describe "${NETWORK/#regions/projects/$PROJECT/regions}")
  check "there is no network ${NETWORK:-default}. Name one: NETWORK=… (gcloud compute networks subnets list --project=$PROJECT \
--regions=$REGION)" . compute "${network[@]}" --project="$PROJECT"
  [[ -z ${MACHINE_TYPE:-} || $MACHINE_TYPE == *custom-* ]] || check "region $REGION has no machines of type $MACHINE_TYPE. \
Its types: gcloud compute machine-types list --filter=zone~^$REGION-" "$MACHINE_TYPE" compute machine-types list \
    --project="$PROJECT" --filter="name=$MACHINE_TYPE AND zone~^$REGION-" --limit=1 '--format=value(name)'
}

if [[ $# -eq 0 || " $* " == *" -h "* || " $* " == *" --help "* ]]; then
  sed -n '/^# Builds/,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  exit $(($# == 0 ? 2 : 0))
fi
[[ $1 != --template || $# -eq 2 ]] || fail "--template takes one address: ./run_dataflow.sh --template gs://BUCKET/NAME.json"
[[ $# -ge 2 ]] || fail "OUTPUT is missing: ./run_dataflow.sh gs://photos gs://datasets/flowers/v1"
[[ -n ${PROJECT:-} ]] || fail "PROJECT is required: the Google Cloud project that runs the job, as in PROJECT=my-project"
[[ -n ${REGION:-} ]] || fail "REGION is required: the region of the workers, best that of the buckets, as in REGION=us-central1"

if [[ $1 == --template ]]; then
  [[ -n ${IMAGE:-} ]] || fail "IMAGE is required for a template: the image that launches it and runs its workers, see Dockerfile"
  [[ ${CHECKS:-} == no ]] || { check_login; check_image; }
  gcloud dataflow flex-template build "$2" --project="$PROJECT" --image="$IMAGE" --sdk-language=PYTHON \
    --metadata-file="$here/flex_template.json" || fail "gcloud could not make the template; its message is above."
  printf '%s\n' "Template: $2" "Start a job: gcloud dataflow flex-template run shardfeed-1 --project=$PROJECT --region=$REGION \\" \
    "  --template-file-gcs-location=$2 \\" "  --parameters=input=gs://photos,output=gs://datasets/flowers/v1,sdk_container_image=$IMAGE"
  exit 0
fi

bucket=${2#gs://}
arguments=(--input "$1" --output "$2" --runner DataflowRunner --project "$PROJECT" --region "$REGION")
arguments+=(--temp_location "${TEMP:-gs://${bucket%%/*}/shardfeed-tmp}")
shift 2
[[ -z ${WORKERS:-} ]] || arguments+=(--max_num_workers "$WORKERS")
[[ -z ${MACHINE_TYPE:-} ]] || arguments+=(--worker_machine_type "$MACHINE_TYPE")
[[ -z ${SERVICE_ACCOUNT:-} ]] || arguments+=(--service_account_email "$SERVICE_ACCOUNT")
[[ ${NETWORK:-} != */subnetworks/* ]] || arguments+=(--subnetwork "$NETWORK")
[[ -z ${NETWORK:-} || $NETWORK == */subnetworks/* ]] || arguments+=(--network "${NETWORK#"projects/$PROJECT/global/networks/"}")
[[ -z ${IMAGE:-} ]] || arguments+=(--sdk_container_image "$IMAGE")
[[ -n ${IMAGE:-} ]] || arguments+=(--setup_file "$here/setup.py")

python=${PYTHON:-$here/.venv/bin/python}
[[ -n ${PYTHON:-} || -x $python ]] || python=python3
"$python" -c 'import sys; from importlib.util import find_spec as f; sys.exit(not (f("shardfeed") and f("apache_beam")))' ||
  fail "PYTHON=$python has no shardfeed with Apache Beam. Install it with: $python -m pip install '${here}[beam]'"

[[ ${CHECKS:-} == no ]] || { check_login; check_workers; check_image; }
if [[ ${PLAN:-} != no ]]; then
  code=0
  # A million files of one folder are listed in five minutes (docs/explanation/scale.md); more are left to the workers.
  plan=$("$python" -m shardfeed plan --list_at_most 1000000 "${arguments[@]}" "$@") || code=$?
  [[ -z $plan ]] || printf '%s\n' "$plan" >&2  # standard output is the build's, for --json
  [[ $code -eq 0 || -z $plan ]] ||
    note "no job was submitted, because it would end with exit code $code, by the plan's notes. To submit it all the same: PLAN=no"
  [[ $code -eq 0 ]] || exit "$code"
fi
exec "$python" -m shardfeed build "${arguments[@]}" "$@"
