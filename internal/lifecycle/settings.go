package lifecycle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// SettingsName is the name of the one object of kind Realm. Its spec has the realm
// settings. Without that object the defaults apply.
const SettingsName = "settings"

// Settings are the settings of a realm.
type Settings struct {
	// OwnerGrace is how long an owner that was never seen stays unknown for
	// an imported dependent, or for one whose owner's kind was registered
	// after it appeared, before it counts as absent.
	OwnerGrace time.Duration
	// SessionIdle is how long an import session stays open without a command.
	SessionIdle time.Duration
	// Propagation is how the collector deletes what has a built-in finalizer.
	Propagation Propagation
	// UnreachableCycles says whether objects that own each other, and that nothing else owns,
	// are collected or only reported (A14).
	UnreachableCycles UnreachableCycles
	// PodDrainTimeout is how long the other contents of a namespace that is deleted wait for
	// its Pods (A5.8); zero for no order.
	PodDrainTimeout time.Duration
	// LogRetention bounds the stream of the realm's log. Commits before it are in the
	// archive; without an archive none is cut.
	LogRetention Retention
	// ArchiveRetention bounds what the archive has of the realm, if HasArchiveRetention is
	// set. Otherwise the default of the graph services does.
	ArchiveRetention    Retention
	HasArchiveRetention bool
	// Brake is the brake of every kind. That of a kind can only make it stricter (B4.1).
	Brake BrakePolicy
	// Shared are the namespaces whose objects can be used from other namespaces (B3.10).
	Shared Namespaces
	// BlockOwnerDeletion says who may set blockOwnerDeletion (B11).
	BlockOwnerDeletion BlockOwnerDeletion
}

// Namespaces is a set of namespaces: their names, sorted, with a space between them; AnyNamespace for
// all. It is comparable.
type Namespaces string

// AnyNamespace stands for all namespaces.
const AnyNamespace = "*"

// Has reports whether the set has a namespace.
func (s Namespaces) Has(namespace string) bool {
	return s == AnyNamespace || slices.Contains(strings.Fields(string(s)), namespace)
}

// MaxShared is the maximum number of namespaces in the realm settings.
const MaxShared = 256

// Propagation is the collector's propagation policy (A12.9).
type Propagation string

// The collector's propagation policies.
const (
	// Honour: the object's own orphan or foreground finalizer decides.
	Honour Propagation = "honour"
	// Cascade: as if orphanDependents were false, so that neither stays (seed 000).
	Cascade Propagation = "cascade"
)

// UnreachableCycles is a policy for cycles that nothing outside of them owns.
type UnreachableCycles string

// The policies for unreachable cycles.
const (
	ReportCycles  UnreachableCycles = "report"
	CollectCycles UnreachableCycles = "collect"
)

// BlockOwnerDeletion says who may set blockOwnerDeletion of an owner reference.
type BlockOwnerDeletion string

// Who may set blockOwnerDeletion.
const (
	// BlockedByAnyone: who may write the object.
	BlockedByAnyone BlockOwnerDeletion = "anyone"
	// BlockedIfPermitted: who may, in addition, delete the owner's kind, or block its deletion.
	BlockedIfPermitted BlockOwnerDeletion = "permitted"
)

// DefaultSettings are the settings of a realm without an object of kind Realm.
func DefaultSettings() Settings {
	return Settings{
		OwnerGrace: 10 * time.Minute, SessionIdle: 10 * time.Minute,
		Propagation: Honour, UnreachableCycles: ReportCycles, PodDrainTimeout: 10 * time.Minute,
		LogRetention: DefaultLogRetention, BlockOwnerDeletion: BlockedByAnyone,
	}
}

// SettingsSpec is the spec of the object with the realm settings. Members that it does not
// have keep their defaults. Durations are strings such as "90s" or "10m"; for a retention see
// ParseRetention.
type SettingsSpec struct {
	OwnerGrace           string             `json:"ownerGrace,omitempty"`
	ImportIdle           string             `json:"importIdle,omitempty"`
	ProcessorPropagation Propagation        `json:"processorPropagation,omitempty"`
	UnreachableCycles    UnreachableCycles  `json:"unreachableCycles,omitempty"`
	PodDrainTimeout      string             `json:"podDrainTimeout,omitempty"`
	LogRetention         string             `json:"logRetention,omitempty"`
	ArchiveRetention     string             `json:"archiveRetention,omitempty"`
	Brake                *api.Brake         `json:"brake,omitempty"`
	SharedNamespaces     []string           `json:"sharedNamespaces,omitempty"`
	BlockOwnerDeletion   BlockOwnerDeletion `json:"blockOwnerDeletion,omitempty"`
}

// Members of the realm settings that programs refuse which read only earlier versions of the log format.
const (
	SettingSharedNamespaces   = "sharedNamespaces"
	SettingBlockOwnerDeletion = "blockOwnerDeletion"
)

// HasSetting reports whether the body of an object with the realm settings has a member, whatever its value.
func HasSetting(body *coppicev1.Body, name string) bool {
	var spec map[string]json.RawMessage
	err := json.Unmarshal(body.GetSpec(), &spec)
	_, has := spec[name]
	return err == nil && has
}

// IsSettings reports whether the node is the object with the realm settings.
func IsSettings(n *Node) bool { return isRealm(n.Group(), n.Kind) && n.Namespace == "" }

// Governs reports whether the object configures the realm: a registration of a kind, the realm
// settings, or a protection policy.
func Governs(n *Node) bool { return IsRegistration(n) || IsSettings(n) || IsPolicy(n) }

// governing reports whether objects of the kind govern the realm.
func governing(group, kind string) bool {
	return isKind(group, kind) || isRealm(group, kind) || isPolicy(group, kind)
}

func isRealm(group, kind string) bool { return group == Group && kind == "Realm" }

// SettingsOf returns the realm settings in the body of such an object.
func SettingsOf(body *coppicev1.Body) (Settings, error) {
	o, causes := parseSettings(body.GetSpec())
	if len(causes) > 0 {
		return o, fmt.Errorf("not the options of a realm: %s", causes[0])
	}
	return o, nil
}

func parseSettings(raw []byte) (Settings, []Cause) {
	o := DefaultSettings()
	var spec SettingsSpec
	if len(raw) > 0 {
		if err := decodeSpec(raw, &spec); err != nil {
			return o, []Cause{invalidValue("spec", string(raw), "not the spec of a Realm: "+err.Error())}
		}
	}
	causes := slices.Concat(
		duration("spec.ownerGrace", spec.OwnerGrace, 0, &o.OwnerGrace),
		duration("spec.importIdle", spec.ImportIdle, time.Second, &o.SessionIdle),
		duration("spec.podDrainTimeout", spec.PodDrainTimeout, 0, &o.PodDrainTimeout),
		retention("spec.logRetention", spec.LogRetention, &o.LogRetention),
		retention("spec.archiveRetention", spec.ArchiveRetention, &o.ArchiveRetention))
	o.HasArchiveRetention = spec.ArchiveRetention != ""
	switch spec.ProcessorPropagation {
	case "":
	case Honour, Cascade:
		o.Propagation = spec.ProcessorPropagation
	default:
		causes = append(causes, notSupported("spec.processorPropagation", string(spec.ProcessorPropagation), string(Honour), string(Cascade)))
	}
	switch spec.UnreachableCycles {
	case "":
	case ReportCycles, CollectCycles:
		o.UnreachableCycles = spec.UnreachableCycles
	default:
		causes = append(causes, notSupported("spec.unreachableCycles", string(spec.UnreachableCycles), string(ReportCycles), string(CollectCycles)))
	}
	switch spec.BlockOwnerDeletion {
	case "":
	case BlockedByAnyone, BlockedIfPermitted:
		o.BlockOwnerDeletion = spec.BlockOwnerDeletion
	default:
		causes = append(causes, notSupported("spec.blockOwnerDeletion", string(spec.BlockOwnerDeletion), string(BlockedByAnyone), string(BlockedIfPermitted)))
	}
	brake, more := parseBrake("spec.brake", spec.Brake)
	o.Brake = brake
	causes = append(causes, more...)
	shared, more := parseShared("spec.sharedNamespaces", spec.SharedNamespaces)
	o.Shared = shared
	return o, append(causes, more...)
}

// parseShared reads a list of namespaces.
func parseShared(field string, list []string) (Namespaces, []Cause) {
	if len(list) > MaxShared {
		return "", []Cause{tooMany(field, len(list), MaxShared)}
	}
	var causes []Cause
	for i, name := range list {
		if name != AnyNamespace {
			causes = append(causes, checkLabel(fmt.Sprintf("%s[%d]", field, i), name)...)
		}
	}
	if slices.Contains(list, AnyNamespace) {
		return AnyNamespace, causes
	}
	return Namespaces(strings.Join(slices.Compact(slices.Sorted(slices.Values(list))), " ")), causes
}

// maxDuration is the longest duration in the options, 10 years.
const maxDuration = 10 * 365 * 24 * time.Hour

// duration reads a duration that is said into d, and refuses one below least or
// above maxDuration.
func duration(field, said string, least time.Duration, d *time.Duration) []Cause {
	if said == "" {
		return nil
	}
	read, err := time.ParseDuration(said)
	if err != nil || read < least || read > maxDuration {
		return []Cause{invalidValue(field, said, fmt.Sprintf("must be a duration such as 90s or 10m, of at least %s and at most %s", least, maxDuration))}
	}
	*d = read
	return nil
}

// validateSettings checks an object of kind Realm.
func validateSettings(name string, spec []byte) []Cause {
	_, causes := parseSettings(spec)
	if name != SettingsName {
		causes = append(causes, invalidValue("metadata.name", name, fmt.Sprintf("a realm has one object of this kind, %q", SettingsName)))
	}
	return causes
}

// ProductionSettings are the settings that are recommended for a realm in production.
func ProductionSettings() SettingsSpec {
	return SettingsSpec{Brake: &api.Brake{Objects: 1000, Window: "10m"}}
}

//go:generate go run ./generate ../../deploy/realm-settings.yaml

// JSON is the spec as the spec of an object.
func (s SettingsSpec) JSON() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings only
	}
	return b
}
