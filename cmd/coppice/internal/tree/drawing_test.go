package tree

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// familyOf makes a family of lines such as
//
//	deployments/web <- deployments/a, deployments/b? !example.com/x
//
// An owner is solid; with a question mark unknown, with a tilde waiting, with a
// minus dangling. What follows an exclamation mark are the finalizers of an
// object that is being deleted, and what follows an asterisk those of one that
// is not. The uid is the key.
func familyOf(lines string) *Family {
	classes := map[byte]coppicev1.OwnerClass{'?': lifecycle.Unknown, '~': lifecycle.Waiting, '-': lifecycle.Dangling}
	var nodes []*coppicev1.GraphNode
	for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
		line, dying, terminating := strings.Cut(line, "!")
		line, alive, _ := strings.Cut(line, "*")
		key, owners, _ := strings.Cut(strings.TrimSpace(line), " <- ")
		resource, name, _ := strings.Cut(strings.TrimSpace(key), "/")
		m := &coppicev1.ObjectMeta{Name: name, Namespace: "shop", Uid: strings.TrimSpace(key), Finalizers: strings.Fields(dying + alive)}
		if terminating {
			m.DeletionTimestamp = timestamppb.Now()
		}
		n := &coppicev1.GraphNode{Resource: resource, Object: &coppicev1.Object{Metadata: m}}
		for _, o := range strings.FieldsFunc(owners, func(r rune) bool { return r == ',' || r == ' ' }) {
			class, ok := classes[o[len(o)-1]]
			if !ok {
				class = lifecycle.Solid
			} else {
				o = o[:len(o)-1]
			}
			kind, owner, _ := strings.Cut(o, "/")
			m.OwnerReferences = append(m.OwnerReferences, &coppicev1.OwnerReference{Kind: kind, Name: owner, Uid: o})
			n.Owners = append(n.Owners, &coppicev1.GraphOwner{Class: class, Why: "reason"})
		}
		nodes = append(nodes, n)
	}
	f := NewFamily()
	for _, n := range nodes {
		f.Add(n)
	}
	for uid, below := range f.Below {
		if f.Nodes[uid] != nil {
			f.Nodes[uid].Dependents = uint64(len(below))
		}
	}
	return f
}

func draw(t *testing.T, f *Family, root string, up, all bool) string {
	t.Helper()
	d := &Drawing{
		Family: f, All: all, Shown: map[string]bool{},
		OwnerKey: func(r *coppicev1.OwnerReference) string { return r.GetKind() + "/" + r.GetName() },
		Class:    func(o *coppicev1.GraphOwner) string { return ClassText(o, time.Now()) },
		BlockedBy: func(n *coppicev1.GraphNode) string {
			return strings.Join(n.GetObject().GetMetadata().GetFinalizers(), " ")
		},
	}
	var b strings.Builder
	var drawn *Branch
	if up {
		drawn = d.Up(f.Nodes[root])
	} else {
		drawn = d.Down(f.Nodes[root], nil)
	}
	must.Succeed(t, drawn.Write(&b, terminal.Ink{}))
	return b.String()
}

func TestDrawing(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, lines, root string
		up, all           bool
		want              string
	}{
		{name: "groups", lines: `
d/web
r/web-1 <- d/web
p/1 <- r/web-1
p/2 <- r/web-1
c/web <- d/web, d/api
d/api`, root: "d/web", want: `
d/web
├─ r/web-1  2 p
└─ c/web  also owned by d/api
`},
		{name: "each", all: true, lines: `
d/web
p/2 <- d/web
p/1 <- d/web`, root: "d/web", want: `
d/web
├─ p/1
└─ p/2
`},
		{name: "several groups", lines: `
d/web
p/1 <- d/web
p/2 <- d/web
c/1 <- d/web
c/2 <- d/web
c/3 <- d/web
s/1 <- d/web`, root: "d/web", want: `
d/web  3 c, 2 p
└─ s/1
`},
		{name: "what is being deleted is not counted", lines: `
d/web !foregroundDeletion
p/1 <- d/web~
p/2 <- d/web~
p/3 <- d/web~ !example.com/bucket`, root: "d/web", want: `
d/web  2 p  Terminating: foregroundDeletion
└─ p/3  Terminating: example.com/bucket
`},
		{name: "owners that are not there", lines: `
d/web
p/1 <- d/web, x/gone-, x/late?`, root: "d/web", want: `
d/web
└─ p/1  refers to x/gone, dangling: reason  refers to x/late, unknown: reason
`},
		{name: "a diamond", lines: `
a/1
b/1 <- a/1
b/2 <- a/1
c/1 <- b/1, b/2`, root: "a/1", want: `
a/1
├─ b/1
│  └─ c/1  also owned by b/2
└─ b/2
   └─ c/1  (shown above)
`},
		{name: "up", up: true, lines: `
a/1
b/1 <- a/1, x/gone-
b/2 <- a/1
c/1 <- b/1, b/2`, root: "c/1", want: `
c/1
├─ b/1
│  ├─ a/1
│  └─ x/gone  dangling: reason
└─ b/2
   └─ a/1  (shown above)
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := draw(t, familyOf(tc.lines), tc.root, tc.up, tc.all); got != tc.want[1:] {
				t.Errorf("drawn\n%swant%s", got, tc.want)
			}
		})
	}
}

func TestDrawingIsBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("p/0\n")
	for i := range 3 * maxDepth {
		fmt.Fprintf(&b, "p/%d <- p/%d\n", i+1, i)
	}
	f := familyOf(b.String())
	down := draw(t, f, "p/0", false, false)
	if n := strings.Count(down, "\n"); n != maxDepth+2 || !strings.HasSuffix(down, "└─ … 1 dependent, and what is below\n") {
		t.Errorf("%d lines, the last %q", n, down[len(down)-60:])
	}
	up := draw(t, f, fmt.Sprintf("p/%d", 3*maxDepth), true, false)
	if n := strings.Count(up, "\n"); n != maxDepth+2 || !strings.HasSuffix(up, "└─ … 1 owner, and what is above\n") {
		t.Errorf("%d lines, the last %q", n, up[len(up)-60:])
	}
	f.Nodes["p/0"].Dependents = 10
	if got := draw(t, f, "p/0", false, false); !strings.HasSuffix(got, "└─ … 9 more\n") {
		t.Errorf("dependents that are not known: %q", got[len(got)-60:])
	}
}
