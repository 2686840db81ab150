package manifest

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// initializers is the JSON of metadata.initializers.
type initializers struct {
	Pending []initializer `json:"pending,omitempty"`
	Result  *status       `json:"result,omitempty"`
}

type initializer struct {
	Name string `json:"name"`
}

// status is a coppice.v1.Status in the JSON mapping of protobuf.
type status struct{ proto *coppicev1.Status }

func (s *status) MarshalJSON() ([]byte, error) { return protojson.Marshal(s.proto) }

func (s *status) UnmarshalJSON(b []byte) error {
	s.proto = &coppicev1.Status{}
	if err := protojson.Unmarshal(b, s.proto); err != nil {
		return fmt.Errorf("metadata.initializers.result: %w", err)
	}
	return nil
}

func (in *initializers) proto() *coppicev1.Initializers {
	if in == nil {
		return nil
	}
	p := &coppicev1.Initializers{}
	for _, i := range in.Pending {
		p.Pending = append(p.Pending, &coppicev1.Initializer{Name: i.Name})
	}
	if in.Result != nil {
		p.Result = in.Result.proto
	}
	return p
}

func initializersOf(p *coppicev1.Initializers) *initializers {
	if p == nil {
		return nil
	}
	in := &initializers{}
	for _, i := range p.GetPending() {
		in.Pending = append(in.Pending, initializer{Name: i.GetName()})
	}
	if p.GetResult() != nil {
		in.Result = &status{proto: p.GetResult()}
	}
	return in
}
