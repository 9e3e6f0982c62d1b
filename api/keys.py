"""The names by which the platform's parts recognise each other in a cluster (spec sections 1 and 1.5)."""

from typing import Final

GROUP: Final = "decisionmodel.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = "decisionmodel.io/v1alpha1"
KIND: Final = "DecisionModel"
LIST_KIND: Final = "DecisionModelList"
PLURAL: Final = "decisionmodels"
SINGULAR: Final = "decisionmodel"
SHORT_NAME: Final = "dm"

RUNTIME_PORT: Final = 11435
"""The port on which the runtime serves, in Pods and in the Service alike."""

NAME_LABEL: Final = f"{GROUP}/name"
"""On every child: the DecisionModel's name. Also what the watch cache filters by."""
REVISION_LABEL: Final = f"{GROUP}/revision"
PREFETCH_REVISION_LABEL: Final = f"{GROUP}/prefetch-revision"
"""Only on prefetch Pods, which must never match the selector of a Service."""

API_KEY_LABEL: Final = f"{GROUP}/api-key"
DATASET_LABEL: Final = f"{GROUP}/eval-dataset"
DOWNLOAD_TOKEN_LABEL: Final = f"{GROUP}/download-token"
CAPABILITY_GRANTED: Final = "true"
"""The value by which one of the three labels above opens a Secret for that one use (spec section 8.4)."""
CAPABILITY_SEPARATOR: Final = "_"
"""Between the names of DecisionModels in such a value, which then opens the Secret to these alone. No name has one."""

RETRY_ANNOTATION: Final = f"{GROUP}/retry"
PROMOTE_ANNOTATION: Final = f"{GROUP}/promote"
SPEC_HASH_ANNOTATION: Final = f"{GROUP}/spec-hash"
API_KEY_CHECKSUM_ANNOTATION: Final = f"{GROUP}/apikey-checksum"
POD_SETTINGS_ANNOTATION: Final = f"{GROUP}/pods"
"""On a serving Deployment: the `spec.pods` of its revision, as JSON. The status keeps only a hash of it."""
PREFETCHED_ANNOTATION: Final = f"{GROUP}/prefetched"
"""On a prefetch Job whose own container has done its work while another one in its Pod runs on."""
REVISION_RECORD_ANNOTATION: Final = f"{GROUP}/revision-record"
"""On a Deployment: the revision's record as JSON, from which a lost status is rebuilt; its hash proves it."""
STORE_RECOVERING_ANNOTATION: Final = f"{GROUP}/store-recovering"

GATE: Final = f"{GROUP}/model-ready"
"""The Pod readiness gate, which is also the type of the Pod condition behind it."""

REPORTING_CONTROLLER: Final = "decisionmodel-controller"
"""Who the platform's Events say they come from (spec section 9.3)."""

# One field manager for each writer: server-side apply removes what a manager no longer mentions, so two writers under
# one name would delete each other's fields.
STACK_FIELD_MANAGER: Final = "decisionmodel-stack"
STATUS_FIELD_MANAGER: Final = "decisionmodel-status"
GATE_FIELD_MANAGER: Final = "decisionmodel-gate"
PLATFORM_FIELD_MANAGER: Final = "decisionmodel-platform"

LEADER_LEASE: Final = "4aba9cc6.io"
"""The Lease of the decision-model-operator: one of the two works on a cluster, never both (spec section 11.1)."""
