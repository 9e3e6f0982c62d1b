# Fill the model store and prove that it holds the recorded digest.
#
# Everything that varies comes from the environment and is only ever used quoted:
#   MODEL EXPECT_DIGEST OLLAYA_MODELS MANIFEST_PATH   always
#   MANIFEST_SEED_FILE                                the recorded manifest, where it is known
#   STORE_ROOT KEEP_SUBPATHS                          to remove the directories of earlier revisions

# An unset variable ends the script here, rather than in the middle of a decision.
: "$MODEL" "$EXPECT_DIGEST" "$OLLAYA_MODELS" "$MANIFEST_PATH"

manifest="$OLLAYA_MODELS/$MANIFEST_PATH"
# One writer per store, so fixed names do; a killed run leaves nothing that the next one does not replace.
staged="$OLLAYA_MODELS/.manifest-seed"
errors="$OLLAYA_MODELS/.pull-errors"

digest_of() {
  sum=$(sha256sum <"$1") || return 1
  printf '%s' "${sum%% *}"
}

short() {
  printf '%.12s' "$1"
}

place_seed() {
  [ -f "$MANIFEST_SEED_FILE" ] && [ -r "$MANIFEST_SEED_FILE" ] ||
    fail 6 SeedUnavailable "the recorded manifest cannot be read from $MANIFEST_SEED_FILE"
  cat -- "$MANIFEST_SEED_FILE" >"$staged" || fail 1 Transient "the model store cannot be written"
  seed=$(digest_of "$staged") || fail 1 Transient "the model store cannot be read"
  if [ "$seed" != "$EXPECT_DIGEST" ]; then
    rm -f -- "$staged"
    fail 4 DigestMismatch "recorded $(short "$EXPECT_DIGEST"), seed $(short "$seed")"
  fi
  { mkdir -p -- "${manifest%/*}" && mv -f -- "$staged" "$manifest"; } ||
    fail 1 Transient "the model store cannot be written"
}

# What the pull has said, without what URLs may hold of secrets: names and passwords in front of a host, and queries,
# which carry the signatures of weight hosts.
pull_errors() {
  sed -e 's#://[^/?[:space:]]*@#://#g' -e 's/?[^ )]*//g' -- "$errors"
}

# The last line says what went wrong.
pull_error() {
  pull_errors | tail -n 1 | tr -cd '[:print:]' | cut -c 1-300
}

pull() {
  command -v ollaya >/dev/null || fail 1 Transient "the image has no ollaya program"
  : >"$errors" || fail 1 Transient "the model store cannot be written"
  pulled=yes
  ollaya pull -- "$MODEL" 2>"$errors" || pulled=no
  pull_errors >&2
  # Its words are a mirror's as well, and tell nothing for good: what is final, this script finds itself.
  [ "$pulled" = yes ] || fail 1 Transient "$(pull_error)"
  rm -f -- "$errors"
}

is_manifest() {
  tr -d '[:space:]' <"$1" | grep -Eq '^\{(.*,)?"schemaVersion":2(,.*)?\}$'
}

verify() {
  [ -f "$manifest" ] || fail 4 DigestMismatch "recorded $(short "$EXPECT_DIGEST"), the pull left no $MANIFEST_PATH"
  found=$(digest_of "$manifest") || fail 1 Transient "the model store cannot be read"
  [ "$found" != "$EXPECT_DIGEST" ] || return 0
  ! is_manifest "$manifest" ||
    fail 5 UpstreamTagMoved "recorded $(short "$EXPECT_DIGEST"), registry now serves $(short "$found")"
  fail 4 DigestMismatch "recorded $(short "$EXPECT_DIGEST"), the store holds $(short "$found")"
}

is_revision() {
  case $1 in
    *[!0-9a-f]*) return 1 ;;
  esac
  [ ${#1} -eq 10 ] || [ ${#1} -eq 16 ]
}

# The store is verified by now: a directory that cannot be removed is worth a line, not a failure.
prune() {
  for directory in "$STORE_ROOT"/*; do
    name=${directory##*/}
    is_revision "$name" || continue
    [ -d "$directory" ] && [ ! -L "$directory" ] || continue
    case " $KEEP_SUBPATHS " in
      *" $name "*) continue ;;
    esac
    rm -rf -- "$directory" || printf 'cannot remove %s\n' "$directory" >&2
  done
}

[ -z "${MANIFEST_SEED_FILE:-}" ] || place_seed
pull
verify
[ -z "${STORE_ROOT:-}" ] || [ -z "${KEEP_SUBPATHS:-}" ] || prune
