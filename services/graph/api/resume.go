package api

import (
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/command"
)

// resume ends the pause of a realm.
func (s *objectsWriter) resume(q *request, at bus.API) *lifecycle.Error {
	if err := realmWide(at); err != nil {
		return err
	}
	if err := q.read(&coppicev1.ResumeRequest{}); err != nil {
		return err
	}
	return s.submit(q, at, &command.Resume{}, "")
}
