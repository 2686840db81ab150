package whatif

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// ErrSettings is wrapped by the errors of settings that cannot be used.
var ErrSettings = errors.New("these settings cannot be used")

// Settings replace those of a log from its beginning.
type Settings struct {
	realm *coppicev1.Object // the object with the realm settings; nil to keep those of the log
	kinds map[string][]byte // specs, by the names of the objects of kind Kind
}

// ReadSettings reads objects of the kinds Realm and Kind from a file in YAML or JSON.
func ReadSettings(file string, data []byte) (*Settings, error) {
	entries, err := manifestfile.Read(file, data)
	if err != nil {
		return nil, err
	}
	s := &Settings{kinds: map[string][]byte{}}
	for _, e := range entries {
		if e.Err != nil {
			return nil, e.Err
		}
		o, name := e.Object, e.Object.GetMetadata().GetName()
		switch {
		case o.GetApiVersion() == lifecycle.APIVersion && o.GetKind() == "Realm" && s.realm == nil:
			s.realm = &coppicev1.Object{ApiVersion: o.GetApiVersion(), Kind: o.GetKind(), Metadata: &coppicev1.ObjectMeta{Name: name}, Spec: o.GetSpec()}
			if _, err := lifecycle.SettingsOf(&coppicev1.Body{Spec: o.GetSpec()}); err != nil {
				return nil, fmt.Errorf("%s: %w: %w", e.At, ErrSettings, err)
			}
		case o.GetApiVersion() == lifecycle.APIVersion && o.GetKind() == "Kind" && s.kinds[name] == nil:
			s.kinds[name] = o.GetSpec()
		default:
			return nil, fmt.Errorf("%s: %w: name objects of apiVersion %s and kind Realm or Kind, each once, not %s %q", e.At, ErrSettings, lifecycle.APIVersion, o.GetKind(), name)
		}
	}
	if s.realm == nil && len(s.kinds) == 0 {
		return nil, fmt.Errorf("%s: %w: it has no object", file, ErrSettings)
	}
	return s, nil
}

// spec returns the spec that replaces the one of an object, nil if none does.
func (s *Settings) spec(r *replay, n *lifecycle.Node) []byte {
	spec := s.kinds[n.Name]
	if !lifecycle.IsRegistration(n) || spec == nil {
		return nil
	}
	r.used[n.Name] = true
	return spec
}

// clone returns a copy of an object that may be changed.
func clone(o *coppicev1.Object) *coppicev1.Object { return proto.Clone(o).(*coppicev1.Object) }
