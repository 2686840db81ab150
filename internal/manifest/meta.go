package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// meta is the metadata of a manifest. selfLink, clusterName and managedFields are read and
// dropped. Any other field is refused as a mistake.
type meta struct {
	Name                       string           `json:"name,omitempty"`
	GenerateName               string           `json:"generateName,omitempty"`
	Namespace                  string           `json:"namespace,omitempty"`
	UID                        string           `json:"uid,omitempty"`
	ResourceVersion            resourceVersion  `json:"resourceVersion,omitempty"`
	Generation                 int64            `json:"generation,omitempty"`
	CreationTimestamp          *timestamp       `json:"creationTimestamp,omitempty"`
	DeletionTimestamp          *timestamp       `json:"deletionTimestamp,omitempty"`
	DeletionGracePeriodSeconds *int64           `json:"deletionGracePeriodSeconds,omitempty"`
	Labels                     labels           `json:"labels,omitempty"`
	Annotations                annotations      `json:"annotations,omitempty"`
	OwnerReferences            []ownerReference `json:"ownerReferences,omitempty"`
	Finalizers                 []string         `json:"finalizers,omitempty"`
	Initializers               *initializers    `json:"initializers,omitempty"`
	Uses                       []use            `json:"uses,omitempty"`
	Protection                 *protection      `json:"protection,omitempty"`
	ExpiresAt                  *timestamp       `json:"expiresAt,omitempty"`

	ManagedFields managedFields `json:"managedFields,omitempty"`
	SelfLink      dropped       `json:"selfLink,omitempty"`
	ClusterName   dropped       `json:"clusterName,omitempty"`
}

// managedFields shows ObjectMeta.Applied in the shape of Kubernetes. It is ignored when it is read.
type managedFields []managedField

type managedField struct {
	Manager    string          `json:"manager"`
	Operation  string          `json:"operation"`
	FieldsType string          `json:"fieldsType"`
	FieldsV1   json.RawMessage `json:"fieldsV1"`
}

func (*managedFields) UnmarshalJSON([]byte) error { return nil }

func managedFieldsOf(applied []byte) managedFields {
	if len(applied) == 0 {
		return nil
	}
	return managedFields{{Manager: "apply", Operation: "Apply", FieldsType: "FieldsV1", FieldsV1: applied}}
}

// dropped is a member that is read and ignored.
type dropped []struct{}

func (*dropped) UnmarshalJSON([]byte) error { return nil }

type ownerReference struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	Controller         *bool  `json:"controller,omitempty"`
	BlockOwnerDeletion *bool  `json:"blockOwnerDeletion,omitempty"`
}

type use struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	UID       string `json:"uid,omitempty"`
}

// resourceVersion is a string in manifests. A number is accepted, too.
type resourceVersion uint64

func (v resourceVersion) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatUint(uint64(v), 10)), nil
}

func (v *resourceVersion) UnmarshalJSON(b []byte) error {
	s := string(b)
	if s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		s = ""
		if err := json.Unmarshal(b, &s); err != nil {
			return describe("metadata.resourceVersion", err)
		}
	}
	if s == "" {
		*v = 0
		return nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return &RevisionError{Value: s}
	}
	*v = resourceVersion(n)
	return nil
}

// RevisionError says that the resourceVersion of a manifest comes from another system.
type RevisionError struct{ Value string }

func (e *RevisionError) Error() string {
	return fmt.Sprintf("metadata.resourceVersion: %q is not a revision: a revision is a number", e.Value)
}

type (
	labels      map[string]string
	annotations map[string]string
)

func (l *labels) UnmarshalJSON(b []byte) (err error) {
	*l, err = texts("labels", b)
	return err
}

func (a *annotations) UnmarshalJSON(b []byte) (err error) {
	*a, err = texts("annotations", b)
	return err
}

// texts reads a map of metadata. A member that is null is as if it was not written.
func texts(field string, b []byte) (map[string]string, error) {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(b, &values); err != nil {
		return nil, describe("metadata."+field, err)
	}
	var read map[string]string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		switch raw := values[key]; {
		case raw[0] == '"':
			var text string
			if err := json.Unmarshal(raw, &text); err != nil {
				return nil, describe("metadata."+field, err)
			}
			if read == nil {
				read = make(map[string]string, len(values))
			}
			read[key] = text
		case string(raw) != "null":
			what := fmt.Sprintf("the value of %q must be text", key)
			if raw[0] != '{' && raw[0] != '[' {
				what += fmt.Sprintf(", not %s: write %q", raw, raw)
			}
			return nil, &FieldError{Path: []string{"metadata", field, key}, what: fmt.Sprintf("metadata.%s: %s", field, what)}
		}
	}
	return read, nil
}

// CheckTexts returns a *FieldError for a label or annotation of a manifest, or of a patch, that is not text.
func CheckTexts(doc []byte) error {
	var m struct {
		Metadata metaTexts `json:"metadata"`
	}
	if err := json.Unmarshal(doc, &m); err != nil {
		return describe("", err)
	}
	return nil
}

type metaTexts struct {
	Labels      labels      `json:"labels"`
	Annotations annotations `json:"annotations"`
}

type timestamp timestamppb.Timestamp

func (t *timestamp) MarshalJSON() ([]byte, error) {
	return json.Marshal((*timestamppb.Timestamp)(t).AsTime().Format(time.RFC3339))
}

func (t *timestamp) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return errors.New("a timestamp must be a string such as 2006-01-02T15:04:05Z")
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return fmt.Errorf("%q is not a timestamp such as 2006-01-02T15:04:05Z", s)
	}
	t.Seconds, t.Nanos = at.Unix(), int32(at.Nanosecond())
	return nil
}

func (m *meta) proto() *coppicev1.ObjectMeta {
	p := &coppicev1.ObjectMeta{
		Name:                       m.Name,
		GenerateName:               m.GenerateName,
		Namespace:                  m.Namespace,
		Uid:                        m.UID,
		ResourceVersion:            uint64(m.ResourceVersion),
		Generation:                 m.Generation,
		CreationTimestamp:          (*timestamppb.Timestamp)(m.CreationTimestamp),
		DeletionTimestamp:          (*timestamppb.Timestamp)(m.DeletionTimestamp),
		DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
		Labels:                     m.Labels,
		Annotations:                m.Annotations,
		Finalizers:                 m.Finalizers,
		Initializers:               m.Initializers.proto(),
		Protection:                 m.Protection.proto(),
		ExpiresAt:                  (*timestamppb.Timestamp)(m.ExpiresAt),
	}
	for _, r := range m.OwnerReferences {
		p.OwnerReferences = append(p.OwnerReferences, &coppicev1.OwnerReference{
			ApiVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, Uid: r.UID,
			Controller: r.Controller, BlockOwnerDeletion: r.BlockOwnerDeletion,
		})
	}
	for _, u := range m.Uses {
		p.Uses = append(p.Uses, &coppicev1.Use{Group: u.Group, Kind: u.Kind, Name: u.Name, Namespace: u.Namespace, Uid: u.UID})
	}
	return p
}

func metaOf(p *coppicev1.ObjectMeta) *meta {
	if p == nil {
		p = &coppicev1.ObjectMeta{}
	}
	m := &meta{
		Name:                       p.GetName(),
		GenerateName:               p.GetGenerateName(),
		Namespace:                  p.GetNamespace(),
		UID:                        p.GetUid(),
		ResourceVersion:            resourceVersion(p.GetResourceVersion()),
		Generation:                 p.GetGeneration(),
		CreationTimestamp:          (*timestamp)(p.GetCreationTimestamp()),
		DeletionTimestamp:          (*timestamp)(p.GetDeletionTimestamp()),
		DeletionGracePeriodSeconds: p.DeletionGracePeriodSeconds,
		Labels:                     p.GetLabels(),
		Annotations:                p.GetAnnotations(),
		Finalizers:                 p.GetFinalizers(),
		Initializers:               initializersOf(p.GetInitializers()),
		Protection:                 protectionOf(p.GetProtection()),
		ExpiresAt:                  (*timestamp)(p.GetExpiresAt()),
		ManagedFields:              managedFieldsOf(p.GetApplied()),
	}
	for _, r := range p.GetOwnerReferences() {
		if r == nil {
			r = &coppicev1.OwnerReference{}
		}
		m.OwnerReferences = append(m.OwnerReferences, ownerReference{
			APIVersion: r.GetApiVersion(), Kind: r.GetKind(), Name: r.GetName(), UID: r.GetUid(),
			Controller: r.Controller, BlockOwnerDeletion: r.BlockOwnerDeletion,
		})
	}
	for _, u := range p.GetUses() {
		m.Uses = append(m.Uses, use{Group: u.GetGroup(), Kind: u.GetKind(), Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUid()})
	}
	return m
}
