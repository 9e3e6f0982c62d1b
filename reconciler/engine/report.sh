# How a prefetch script says why it ends. Prepended to prefetch.sh and refuse.sh; POSIX sh, run by dash.
set -eu
export LC_ALL=C

# Kubernetes reads the reason from the termination log; the streams serve people and clusters that lost the log.
# Usage: fail EXIT_CODE REASON DETAIL
fail() {
  report="reason: $2
detail: $3"
  printf '%s\n' "$report" 2>/dev/null >"${TERMINATION_LOG:-/dev/termination-log}" || :
  printf '%s\n' "$report"
  printf '%s\n' "$report" >&2
  exit "$1"
}
