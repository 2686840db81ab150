package lifecycle

// A namespace is drained in an order: first its Pods, then everything else (A5.8), so that
// programs do not lose their configuration, secrets and volumes before they end.

// IsPod reports whether the node is a Pod of the core group.
func IsPod(n *Node) bool { return n.Kind == "Pod" && n.Group() == "" }

// PodsUntil returns until when the contents of a namespace that is being deleted wait for its
// Pods: zero if it has none, or if it is not being deleted. The time is over if it is not
// after now. It begins with the mark of the namespace, so that neither a restart nor another
// writer makes it longer.
func PodsUntil(v View, container *Node) Time {
	if !IsNamespace(container) || !container.Draining() {
		return 0
	}
	pods := v.Kinds().Of("", "Pod")
	timeout := v.Settings().PodDrainTimeout
	if pods == nil || timeout == 0 {
		return 0
	}
	if _, objects := v.Brake(pods); objects == 0 || v.AnyOf(pods, container.Name) == "" {
		return 0
	}
	return v.Pauses().End(container.DeletionTime, timeout)
}

// WaitsForPods reports whether the drain leaves n for now, because Pods go first. until is
// PodsUntil of the container. Users go before what they use: an object is not left if one
// that is being deleted waits for it to end its use (B3.1).
func WaitsForPods(v View, n *Node, until, now Time) bool {
	if now >= until || IsPod(n) {
		return false
	}
	for i := range n.Uses {
		if used := v.Node(n.Uses[i].UID); used != nil && used.InUse() && Uses(n, used) {
			return false
		}
	}
	return true
}

// PodsBefore returns until when the contents of a namespace wait for its Pods, for the
// namespace, and for an object in it that waits; zero for other objects.
func PodsBefore(v View, n *Node) Time {
	if n.Terminating() || n.Protected() || n.Namespace == "" || IsPod(n) {
		return PodsUntil(v, n)
	}
	namespaces := v.Kinds().Of("", "Namespace")
	if namespaces == nil {
		return 0
	}
	c := v.Node(v.Lookup(namespaces, "", n.Namespace))
	if c == nil {
		return 0
	}
	if until := PodsUntil(v, c); WaitsForPods(v, n, until, 0) {
		return until
	}
	return 0
}
