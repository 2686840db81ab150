package api

// ExpiryPolicy is the spec of an object of kind ExpiryPolicy: which objects of a kind expire. An
// object expires when all members that are set apply to it.
type ExpiryPolicy struct {
	// Group and Kind name the kind of the objects. Group is empty for the core group.
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind"`
	// Selector is a label selector; empty for all objects of the kind.
	Selector string `json:"selector,omitempty"`
	// MinAge is the minimum time since the object's creation: a duration such as "72h".
	MinAge string `json:"minAge,omitempty"`
	// MinUnchanged is the minimum time since the object's last change: a duration such as "72h".
	// Changes of its status count, too.
	MinUnchanged string `json:"minUnchanged,omitempty"`
	// Condition is an expression in CEL. Its variables are object, the manifest of the object, and
	// now, the time.
	Condition string `json:"condition,omitempty"`
	// Notice is how long before the deletion of an object the policy gives notice: a duration such
	// as "24h"; empty for none. The object can be kept meanwhile.
	Notice string `json:"notice,omitempty"`
	// OnSilence says what happens to an object whose notice is not answered: "delete" (the default),
	// or "keep": then objects are deleted only after an answer that agrees.
	OnSilence string `json:"onSilence,omitempty"`
	// Call names a program that is called about each notice, and can answer it; empty for none.
	// The name has the form of the name of a finalizer.
	Call string `json:"call,omitempty"`
	// ReportOnly is set to count and report the objects instead of deleting them.
	ReportOnly bool `json:"reportOnly,omitempty"`
}
