#!/bin/sh
# deliver.sh posts the body of a job to the address in its header "to".
#
#   duly push hooks '{"paid":17}' --header to=https://example.com/hook --tries 5
#   duly work hooks --exec ./examples/workscript/deliver.sh
#
# Exit status 0 acks the job. 75 gives it back without using a try: here if the
# network is down. Anything else is a failed try, and what stands on standard
# error is kept with the job.
set -eu

to=${DULY_JOB_HEADER_TO:?the job has no header \"to\"}
echo "$DULY_JOB_QUEUE/$DULY_JOB_ID: try $DULY_JOB_ATTEMPT of $DULY_JOB_TRIES" >&2

status=0
curl -fsS --max-time 20 --data-binary @- "$to" || status=$?
case $status in
  0) ;;
  6 | 7) exit 75 ;; # the name is not resolved, or nobody listens
  *) exit "$status" ;;
esac
