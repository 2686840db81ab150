package lookup

import (
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Notices describes the notices of an object's deletion that expiry policies have given.
func Notices(n *coppicev1.GraphNode, now time.Time) (list []string) {
	at := func(micros int64) string { return terminal.Clock(time.UnixMicro(micros), now) }
	for _, is := range n.GetNotices() {
		text := fmt.Sprintf("by %s since %s: ", is.GetPolicy(), at(is.GetGiven()))
		if is.GetDue() == 0 {
			text += "stays unless someone agrees to its deletion"
		} else {
			text += "deleted at " + at(is.GetDue())
		}
		switch {
		case is.GetVetoUntil() != 0:
			text += fmt.Sprintf("; vetoed by %s until %s: %s", is.GetAnsweredBy(), at(is.GetVetoUntil()), is.GetReason())
		case is.GetAnsweredBy() != "":
			text += fmt.Sprintf("; %s agrees: %s", is.GetAnsweredBy(), is.GetReason())
		}
		list = append(list, terminal.Printable(text))
	}
	return list
}
