package console

import (
	"strconv"
	"strings"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/chart"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/mirror"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
)

// The beginnings of keys that are not uids, which have no colons.
const (
	keyNamespace = "ns:"
	keyKind      = "kind:"
	keyRest      = "rest:"
)

// appendKey appends the key of a node as messages have it: the packed form of a UUID, and all other keys as text.
func appendKey(b []byte, n *chart.Node, sent *sentNode) []byte {
	switch k := n.Key; {
	case k.Rest:
		// The page opens no node with this key: it only has to differ from those of the others.
		b = append(b, keyRest...)
		k.Rest = false
		if k.Group {
			return appendKey(b, &chart.Node{Key: k}, sent)
		}
		return strconv.AppendUint(b, uint64(k.Object), 10)
	case k.Group && k.Resource == "":
		return append(append(b, keyNamespace...), k.Namespace...)
	case k.Group:
		return append(append(append(append(b, keyKind...), k.Resource...), ':'), k.Namespace...)
	case sent.named.UID.UUID():
		return append(b, sent.named.UID...)
	}
	return append(b, sent.named.UID.String()...)
}

// The limits of what a page asks for.
const (
	maxTurned = 200 // keys of Open and Shut
	maxShow   = 20
	maxLabels = 20
)

// checkGraphAsk returns the labels that an Ask selects, or says what is wrong with it.
func checkGraphAsk(a *view.GraphAsk) (labels []string, err error) {
	if len(a.Open)+len(a.Shut) > maxTurned {
		return nil, badRequest("%d nodes are open or closed against the default, and at most %d can be; close some, or show only a namespace or what depends on one object", len(a.Open)+len(a.Shut), maxTurned)
	}
	if len(a.Show) > maxShow {
		return nil, badRequest("show names %d objects; at most %d can be shown at once", len(a.Show), maxShow)
	}
	for _, label := range strings.Split(a.Labels, ",") {
		label = strings.TrimSpace(label)
		if label == "" {
			continue
		}
		if key, value, found := strings.Cut(label, "="); !found || key == "" || strings.Contains(value, "=") {
			return nil, badRequest("labels: %q is not a label; write key=value, and separate several with commas", clip(label))
		}
		labels = append(labels, label)
	}
	if len(labels) > maxLabels {
		return nil, badRequest("labels: %d labels are given, and at most %d can be", len(labels), maxLabels)
	}
	return labels, nil
}

// chartAsk returns what an Ask asks of the package chart. found is false if there is neither an object with the uid of its root
// nor one that names it as its owner.
func chartAsk(m *mirror.Mirror, a *view.GraphAsk) (ask chart.Ask, found bool) {
	ask = chart.Ask{Fit: graphFit, Most: graphMost, MostOthers: graphOthers}
	if a.Namespace != "" {
		namespace := strings.TrimPrefix(a.Namespace, "-")
		ask.Scope.Namespace = &namespace
	}
	if a.Root != "" {
		if ask.Scope.Root = m.Number(a.Root); ask.Scope.Root == 0 {
			// It was removed, or the mirror has never seen it: what names it as its owner may still be there.
			if ask.Scope.Roots = m.Dependents(a.Root); len(ask.Scope.Roots) == 0 {
				return ask, false
			}
		}
	}
	ask.Open, ask.Shut = keysOf(m, a.Open), keysOf(m, a.Shut)
	for _, uid := range a.Show {
		if number := m.Number(uid); number != 0 {
			ask.Show = append(ask.Show, number)
		}
	}
	return ask, true
}

// keysOf leaves out the keys of objects that do not exist: a page goes on naming what it has opened.
func keysOf(m *mirror.Mirror, texts []string) (keys []chart.Key) {
	for _, text := range texts {
		if namespace, is := strings.CutPrefix(text, keyNamespace); is {
			keys = append(keys, chart.Key{Group: true, Namespace: namespace})
		} else if rest, is := strings.CutPrefix(text, keyKind); is {
			resource, namespace, _ := strings.Cut(rest, ":")
			keys = append(keys, chart.Key{Group: true, Resource: resource, Namespace: namespace})
		} else if number := m.Number(text); number != 0 {
			keys = append(keys, chart.Key{Object: number})
		}
	}
	return keys
}
