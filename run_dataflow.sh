#!/usr/bin/env bash
# Builds a dataset on Google Cloud Dataflow.
#
#   PROJECT=my-project REGION=us-central1 ./run_dataflow.sh gs://photos gs://datasets/flowers/v1 --image_size 224
#
# Required:  PROJECT          project that runs and pays for the job
#            REGION           region of the workers; take the buckets' own, or every byte crosses regions
# Optional:  WORKERS          most workers that autoscaling may start        (default: Dataflow's)
#            MACHINE_TYPE     such as n2-standard-8                           (default: n2-standard-4)
#            SERVICE_ACCOUNT  e-mail of the account that the workers run as  (default: the project's)
#            NETWORK          a network's name, or regions/R/subnetworks/S    (default: "default")
#            IMAGE            worker image with shardfeed (see Dockerfile); nothing is then installed when a worker starts
#            TEMP             gs:// folder for staged files                   (default: shardfeed-tmp in OUTPUT's bucket)
#            PYTHON           interpreter with shardfeed[beam]                (default: .venv/bin/python, else python3)
#            CHECKS=no        do not ask gcloud whether all is ready
#            PLAN=no          do not forecast (it lists the input and encodes a few hundred images here; above a million files
#                             it ends without a forecast), and submit whatever the forecast would be
# Arguments after OUTPUT go to `shardfeed build` as they are; --input among them adds another input.
#
# Before a machine is paid for, gcloud is asked about login, project, APIs, region and the workers' account, and `shardfeed build`
# looks at the buckets. Where the forecast is sure that nothing would be published the script ends, with the job's exit code (3 or
# 5). Else the job is submitted and followed; summary and exit code are those of a local build.
#
#   PROJECT=… REGION=… IMAGE=… ./run_dataflow.sh --template gs://templates/shardfeed.json
#
# makes a Flex template of IMAGE instead, for others to start from the console or a schedule.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

usage() {
  sed -n '/^# Builds/,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
}

fail() {
  printf 'run_dataflow.sh: %s\n' "$1" >&2
  exit 2
}

note() {
  printf 'run_dataflow.sh: %s\n' "$1" >&2
}

# check NAME VALUE PATTERN WHAT: VALUE must match PATTERN from end to end.
check() {
  [[ $2 =~ ^($3)$ ]] || fail "$1 is '$2'; it must be $4."
}

# told TEXT: the line of gcloud's message that says what is wrong, with the one after it where the first only announces it.
told() {
  local text first next
  text=$(grep -A1 ^ERROR <<<"$1" || grep -A1 . <<<"$1") || text="it gave no reason"
  first=${text%%$'\n'*}
  next=${text#*$'\n'}
  [[ $next != ' - '* ]] || first+=" ${next:3}"
  first=${first%%$'\n'*}
  printf '%s' "${first%.}"
}

# ask WORDS…: gcloud's answer, in `answer`. Code 1: there is no such thing. Code 2: the account may not ask.
# Where Google could not be asked this ends the script, for nothing is known then of what is there.
ask() {
  local both said code=0 login="gcloud auth login"
  local unreachable='gcloud crashed|Max retries exceeded|Unable to find the server'
  local expired='auth tokens|gcloud auth login|UNAUTHENTICATED|invalid authentication credentials'
  local denied='PERMISSION_DENIED|[Pp]ermission(s|\(s\))?[[:space:].]'  # and not a project that is called permission-x
  local absent='NOT_FOUND|[Nn]ot found|not exist|could not be found'
  both=$({ said=$(gcloud --quiet "$@" 2>&1 >&3) || code=$?; printf '\036%s\n' "$said"; exit "$code"; } 3>&1) || code=$?
  answer=${both%%$'\036'*}
  answer=${answer%$'\n'}
  said=${both#*$'\036'}$'\n'
  # A list that Compute refuses is an empty one, with a warning and code 0.
  [[ $code -ne 0 || (-z $answer && $said == *"requests did not succeed"*) ]] || return 0
  if [[ ! $said =~ $unreachable ]]; then
    [[ $1 != auth ]] || login="gcloud auth application-default login"
    [[ ! $said =~ $expired ]] || fail "gcloud could not ask Google: $(told "$said"). Log in again: $login"
    [[ ! $said =~ $denied ]] || return 2
    [[ ! $said =~ $absent ]] || return 1
  fi
  fail "gcloud could not ask Google: $(told "$said"). Rerun, or skip what it is asked: CHECKS=no"
}

# is_there WHAT WORDS…: whether gcloud shows it; what the user may not look at is taken for there, with a note.
is_there() {
  local what=$1 code=0
  shift
  ask "$@" || code=$?
  case $code in
    0) [[ -n $answer ]] ;;
    2) note "$account may not look at $what; going on without that check." ;;
    *) return 1 ;;
  esac
}

check_login() {
  command -v gcloud >/dev/null ||
    fail "gcloud is not on PATH. Install it (https://cloud.google.com/sdk/docs/install), or skip what it is asked: CHECKS=no"
  ask auth list --filter=status:ACTIVE '--format=value(account)' || answer=
  account=$answer
  [[ -n $account ]] || fail "gcloud has no account. Log in: gcloud auth login"
  [[ -n ${GOOGLE_APPLICATION_CREDENTIALS:-} ]] || ask auth application-default print-access-token ||
    fail "there are no application default credentials, which Beam uses. Log in: gcloud auth application-default login"
}

check_project() {
  local missing=() name
  ask projects describe "$PROJECT" '--format=value(projectNumber,lifecycleState)' ||
    fail "project $PROJECT does not exist, or $account may not see it (then: CHECKS=no). Yours: gcloud projects list"
  project_number=${answer%%[[:space:]]*}
  [[ $answer == *ACTIVE ]] || fail "project $PROJECT is being deleted. Take another: gcloud projects list"
  if ask services list --enabled --project="$PROJECT" '--format=value(config.name)'; then
    for name in dataflow.googleapis.com compute.googleapis.com storage.googleapis.com "$@"; do
      grep -Fqx "$name" <<<"$answer" || missing+=("$name")
    done
    [[ ${#missing[@]} -eq 0 ]] ||
      fail "APIs of project $PROJECT are off. Turn them on: gcloud services enable ${missing[*]} --project=$PROJECT"
  else
    note "$account may not list the APIs of $PROJECT; going on without that check."
  fi
}

check_region() {
  is_there "region $REGION" compute regions describe "$REGION" --project="$PROJECT" ||
    fail "project $PROJECT has no region $REGION. Its regions: gcloud compute regions list --project=$PROJECT"
  [[ -z ${MACHINE_TYPE:-} || $MACHINE_TYPE == *custom-* ]] ||
    is_there "machine type $MACHINE_TYPE" compute machine-types list --project="$PROJECT" \
      --filter="name=$MACHINE_TYPE AND zone~^$REGION-" --limit=1 '--format=value(name)' ||
    fail "region $REGION has no machines of type $MACHINE_TYPE. Its types: gcloud compute machine-types list --filter=zone~^$REGION-"
  if [[ ${NETWORK:-} =~ ^(.*projects/([^/]+)/)?regions/([^/]+)/subnetworks/ ]]; then
    local host=${BASH_REMATCH[2]:-$PROJECT}
    [[ ${BASH_REMATCH[3]} == "$REGION" ]] ||
      fail "NETWORK is in region ${BASH_REMATCH[3]}, the workers are in $REGION. Take a subnetwork of $REGION."
    is_there "subnetwork ${NETWORK##*/}" compute networks subnets describe "${NETWORK##*/}" --region="$REGION" --project="$host" ||
      fail "region $REGION has no subnetwork ${NETWORK##*/}. Its own: gcloud compute networks subnets list --regions=$REGION"
  else
    is_there "network ${NETWORK:-default}" compute networks describe "${NETWORK:-default}" --project="$PROJECT" ||
      fail "project $PROJECT has no network ${NETWORK:-default}. Name one: NETWORK=… (gcloud compute networks list --project=$PROJECT)"
  fi
}

check_workers_account() {
  local worker=${SERVICE_ACCOUNT:-$project_number-compute@developer.gserviceaccount.com}
  is_there "account $worker" iam service-accounts describe "$worker" --project="$PROJECT" ||
    fail "the workers' account $worker is not in project $PROJECT. Name another: SERVICE_ACCOUNT=… (gcloud iam service-accounts list)"
  if ask projects get-iam-policy "$PROJECT" '--flatten=bindings[].members' \
    --filter="bindings.members:serviceAccount:$worker" '--format=value(bindings.role)'; then
    grep -Eqx 'roles/(dataflow\.worker|editor|owner)' <<<"$answer" ||
      fail "the workers' account $worker may not work for Dataflow. Allow it: gcloud projects add-iam-policy-binding $PROJECT \
--member=serviceAccount:$worker --role=roles/dataflow.worker (where it may by a role of its folder, organisation or group: CHECKS=no)"
  else
    note "$account may not see the roles of $worker; going on without that check."
  fi
}

check_image() {
  [[ ${IMAGE:-} == *-docker.pkg.dev/* ]] || return 0
  is_there "image $IMAGE" artifacts docker images describe "$IMAGE" ||
    fail "there is no image $IMAGE, or $account may not see it. Build it: gcloud builds submit --project=$PROJECT --tag=$IMAGE $here"
}

make_template() {
  [[ -n ${IMAGE:-} ]] || fail "IMAGE is required for a template: the image that launches it and runs its workers, see Dockerfile"
  check TEMPLATE "$1" 'gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]/.+\.json' "gs://BUCKET/NAME.json"
  if [[ ${CHECKS:-} != no ]]; then
    check_login
    check_project artifactregistry.googleapis.com
    check_image
  fi
  gcloud dataflow flex-template build "$1" --project="$PROJECT" --image="$IMAGE" --sdk-language=PYTHON \
    --metadata-file="$here/flex_template.json" || fail "gcloud could not make the template; its message is above."
  printf 'Template: %s\nStart a job: gcloud dataflow flex-template run shardfeed-1 --project=%s --region=%s \\\n' "$1" "$PROJECT" "$REGION"
  printf '  --template-file-gcs-location=%s \\\n' "$1"
  printf '  --parameters=input=gs://photos,output=gs://datasets/flowers/v1,sdk_container_image=%s\n' "$IMAGE"
}

if [[ $# -eq 0 || $1 == -h || $1 == --help ]]; then
  usage
  [[ $# -gt 0 ]] || exit 2
  exit 0
fi
[[ $1 != --template || $# -eq 2 ]] || fail "--template takes one address: ./run_dataflow.sh --template gs://BUCKET/NAME.json"
[[ $# -ge 2 ]] || fail "OUTPUT is missing: ./run_dataflow.sh gs://photos gs://datasets/flowers/v1"
[[ -n ${PROJECT:-} ]] || fail "PROJECT is required: the Google Cloud project that runs the job, as in PROJECT=my-project"
[[ -n ${REGION:-} ]] || fail "REGION is required: the region of the workers, best that of the buckets, as in REGION=us-central1"
check PROJECT "$PROJECT" '([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]' "a project id, such as my-project (not its number or title)"
check REGION "$REGION" '[a-z]+-[a-z]+[0-9]+' "a region, such as us-central1 (not a zone)"
image='[a-z0-9][a-z0-9._-]*(:[0-9]+)?(/[a-z0-9._-]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[a-z0-9]+:[0-9a-f]+)?'
[[ -z ${IMAGE:-} ]] ||
  check IMAGE "$IMAGE" "$image" "an image's address, such as us-docker.pkg.dev/my-project/images/shardfeed:0.1.0"
if [[ $1 == --template ]]; then
  make_template "$2"
  exit 0
fi
input=$1
output=$2
shift 2

bucket='gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]'
check INPUT "$input" "$bucket(/.*)?" "gs://BUCKET, gs://BUCKET/FOLDER or a glob below one"
check OUTPUT "$output" "$bucket/.+" "gs://BUCKET/FOLDER: the folder that becomes the dataset"
output_bucket=${output#gs://}
TEMP=${TEMP:-gs://${output_bucket%%/*}/shardfeed-tmp}
check TEMP "$TEMP" "$bucket/.+" "gs://BUCKET/FOLDER"
for argument in "$@"; do  # a second one would win over what is asked for and checked here
  if [[ $argument == -h || $argument == --help ]]; then
    usage
    exit 0
  fi
  [[ $argument == --* ]] || continue
  name=${argument%%=*}
  name=${name#--}
  case --${name//-/_} in  # shardfeed takes hyphens too
    --runner) fail "$argument after OUTPUT: this script is for Dataflow. For other engines: shardfeed build --runner …" ;;
    --sdk_container_image | --worker_harness_container_image)
      fail "$argument after OUTPUT: give the image as IMAGE=…, for it is looked up first." ;;
    --temp_location) fail "$argument after OUTPUT: give the folder as TEMP=gs://…, for its bucket is looked at first." ;;
    --worker_machine_type | --machine_type)
      fail "$argument after OUTPUT: give the type as MACHINE_TYPE=…, for it is looked up first." ;;
    --network | --subnetwork) fail "$argument after OUTPUT: give it as NETWORK=…, for it is looked up first." ;;
    --service_account_email) fail "$argument after OUTPUT: give the account as SERVICE_ACCOUNT=…, for it is asked about." ;;
    --output) fail "$argument after OUTPUT: the output is the second argument." ;;
    --project) fail "$argument after OUTPUT: give the project as PROJECT=…, for it is what gcloud is asked about." ;;
    --region | --worker_region | --worker_zone | --zone)
      fail "$argument after OUTPUT: give the region as REGION=…, for it is what gcloud is asked about." ;;
    --setup_file)
      [[ -n ${IMAGE:-} ]] || fail "$argument after OUTPUT: the workers' package is made by this checkout's setup.py. For another: IMAGE=…" ;;
  esac
done

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
  NETWORK=${NETWORK#"projects/$PROJECT/global/networks/"}
  check NETWORK "$NETWORK" '[a-z][a-z0-9-]*|(.*/)?regions/[a-z0-9-]+/subnetworks/[a-z][a-z0-9-]*' \
    "a network's name or regions/REGION/subnetworks/NAME"
  if [[ $NETWORK == */* ]]; then
    options+=(--subnetwork "$NETWORK")
  else
    options+=(--network "$NETWORK")
  fi
fi
if [[ -n ${IMAGE:-} ]]; then
  options+=(--sdk_container_image "$IMAGE")
else
  options+=(--setup_file "$here/setup.py")
fi

python=${PYTHON:-$here/.venv/bin/python}
[[ -n ${PYTHON:-} || -x $python ]] || python=python3
type -P "$python" >/dev/null || fail "PYTHON=$python is not a program. Give a Python with this package and Apache Beam."
"$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("apache_beam") is None)' ||
  fail "$python has no Apache Beam. Install it with: $python -m pip install '${here}[beam]'"

if [[ ${CHECKS:-} != no ]]; then
  check_login
  check_project
  check_region
  check_workers_account
  check_image
fi

export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"
if [[ ${PLAN:-} != no ]]; then
  code=0
  # A million files of one folder are listed in five minutes (docs/scale.md); more are left to the workers.
  plan=$("$python" -m pipeline plan --list_at_most 1000000 --input "$input" --output "$output" "${options[@]}" "$@") || code=$?
  [[ -z $plan ]] || printf '%s\n' "$plan" >&2  # standard output is the build's, for --json
  [[ $code -eq 0 || -z $plan ]] ||
    note "no job was submitted, for it would end with exit code $code, by the plan's notes. To submit it all the same: PLAN=no"
  [[ $code -eq 0 ]] || exit "$code"
fi
exec "$python" -m pipeline build --input "$input" --output "$output" "${options[@]}" "$@"
