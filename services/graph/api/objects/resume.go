package objects

import (
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/command"
)

// Resume ends the pause of a realm.
func (s *Writer) Resume(q *serve.Request, at bus.API) *lifecycle.Error {
	if err := serve.RealmWide(at); err != nil {
		return err
	}
	if err := q.Read(&coppicev1.ResumeRequest{}); err != nil {
		return err
	}
	return s.submit(q, at, &command.Resume{}, "")
}
