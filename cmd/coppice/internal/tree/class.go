package tree

import (
	"strings"
	"time"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// ClassText describes the class of an owner reference, with the reason.
func ClassText(o *coppicev1.GraphOwner, now time.Time) string {
	name := strings.ToLower(strings.TrimPrefix(o.GetClass().String(), "OWNER_CLASS_"))
	return name + terminal.Prefixed(": ", o.GetWhy()) + KeptUntilText(o, now)
}

// KeptUntilText says until when an unknown owner keeps its dependents.
func KeptUntilText(o *coppicev1.GraphOwner, now time.Time) string {
	if o.GetUnknownUntil() == 0 {
		return ""
	}
	return " (kept until " + terminal.Clock(time.UnixMicro(o.GetUnknownUntil()), now) + ")"
}
