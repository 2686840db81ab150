package model_test

import (
	"math/bits"
	"strings"

	"pgregory.net/rapid"
)

// Scripts are drawn as text, so that a failed script can be printed and replayed. Shrinking
// replaces lines that do not matter by empty ones.

// drawnScript draws a script of many lines.
var drawnScript = rapid.Custom(func(t *rapid.T) (lines []string) {
	d := drawer{}
	drawn := rapid.Custom(func(t *rapid.T) string {
		d.T = t
		line := d.line()
		if verb, _, _ := strings.Cut(line, " "); d.one(8) && !alone[verb] && verb != "&" {
			line = "& " + line // concurrently with the next line
		}
		return line
	})
	for d.n = range longest {
		if line := drawn.Draw(t, "line"); line != "" && line != "& " {
			lines = append(lines, line)
		}
	}
	return lines
})

// drawer draws the lines of a script in order.
type drawer struct {
	*rapid.T
	n    int      // the number of the line
	late bool     // the kind Late may be registered
	made []string // targets that were created, or may have been
	next []string // remaining lines of a story
}

// pick draws with equal probabilities, and shrinks to the first.
func pick[T any](d *drawer, from ...T) T {
	n := 0
	for range bits.Len(uint(len(from)-1)) + 3 {
		n *= 2
		if rapid.Bool().Draw(d.T, "bit") {
			n++
		}
	}
	return from[n%len(from)]
}

// one draws true once in n times.
func (d *drawer) one(n int) bool {
	numbers := make([]bool, n)
	numbers[n-1] = true
	return pick(d, numbers...)
}

func (d *drawer) fresh() string {
	kind := pick(d, "cm", "cm", "cm", "cm", "po", "po", "rc", "wd", "wd", pick(d, "wd", "ow"), "en", "lt", "no", pick(d, "cm", "ev"))
	if kind == "lt" && !d.late && !d.one(4) {
		kind = "cm"
	}
	at := kind + "/" + pick(d, "a", "b", "c", "d")
	if !strings.HasPrefix(at, "no") && d.one(12) {
		at += "@x"
	}
	return at
}

// target draws an object that may exist.
func (d *drawer) target() string {
	if len(d.made) > 0 && !d.one(8) {
		return pick(d, d.made...)
	}
	return d.fresh()
}

// owner draws an owner that probably exists.
func (d *drawer) owner() string {
	if len(d.made) > 0 && !d.one(20) {
		return pick(d, d.made...)
	}
	return d.fresh()
}

func (d *drawer) owners() string {
	var list []string
	for range pick(d, 0, 0, 1, 1, 1, 1, 2, 3) {
		o := d.owner() + pick(d, "", "!", "!", "!", "!", ".")
		if d.one(8) {
			o += "*"
		}
		if d.one(12) {
			o += pick(d, "~name", "~kind", "~group", "~uid", "~never", "~old", "~version", "~unheard", "~empty")
		}
		list = append(list, o)
	}
	if len(list) > 0 && d.one(10) {
		list = append(list, list[0])
	}
	return listed(" owners=", list)
}

// uses draws uses of objects that may exist.
func (d *drawer) uses() string {
	var list []string
	for range pick(d, 0, 0, 0, 0, 0, 0, 1, 1, 2) {
		list = append(list, d.owner()+pick(d, "", "", "", "", "", "", "~uid"))
	}
	return listed(" uses=", list)
}

func (d *drawer) finalizers() string {
	var list []string
	for range pick(d, 0, 0, 0, 1, 1, 2) {
		list = append(list, pick(d, "example.com/x", "example.com/x", "example.com/y", servedFinalizer, servedFinalizer, orphanFinalizer, foregroundFinalizer))
	}
	if d.one(40) {
		list = append(list, pick(d, "bad..", "plain"))
	}
	return listed(" fin=", list)
}

func listed(what string, list []string) string {
	if len(list) == 0 {
		return ""
	}
	return what + strings.Join(list, ",")
}

// now and then draws the word once in n times.
func (d *drawer) rarely(n int, words ...string) string {
	if d.one(n) {
		return " " + pick(d, words...)
	}
	return ""
}

func (d *drawer) labels() string {
	return d.rarely(3, "labels=app=web", "labels=app=db", "labels=tier=prod", "labels=app=web,tier=prod")
}
func (d *drawer) spec() string {
	return d.rarely(3, "spec=v:1", "spec=v:2", "spec=nodeName:n", "spec=nodeName:n", "spec=nodeName:n,terminationGracePeriodSeconds:3")
}
func (d *drawer) expires() string {
	return d.rarely(25, "expires=past", "expires=soon", "expires=soon", "expires=late")
}
func (d *drawer) version() string { return d.rarely(15, "version=v1", "version=v2", "version=v9") }
func (d *drawer) how() string     { return d.rarely(10, "dry", "twice", "twice") }
func (d *drawer) policy() string {
	return pick(d, "", "", " policy=Background", " policy=Foreground", " policy=Foreground", " policy=Foreground", " policy=Orphan", " policy=Orphan", " orphan=true", " orphan=false")
}
func (d *drawer) precondition() string {
	return d.rarely(6, "rv=now", "rv=stale", "uid=now", "uid=wrong")
}

// line draws an operation. Common operations are listed several times.
func (d *drawer) line() string {
	if len(d.next) > 0 && !d.one(6) {
		line := d.next[0]
		d.next = d.next[1:]
		return line
	}
	verb := pick(d, "",
		"create", "create", "create", "create", "create", "create", "create", "create", "create",
		"delete", "delete", "delete", "delete", "delete", "delete", "update", "update", "update", "unfinalize", "unfinalize", "unfinalize", "import", "import",
		"apply", "patch", "generate", "status", "confirm", "initialize", "deletecollection", "close", "propose", "work", "settle", "plan", "container", "rare", "protect", "undo", "story", "story")
	if d.n < longest/4 && !d.one(6) {
		verb = "create" // the other verbs need an object
	}
	switch verb {
	case "create", "generate":
		at := d.fresh()
		line := verb + " " + at + d.owners() + d.uses() + d.finalizers() + d.labels() + d.spec() + d.expires() + d.rarely(12, "init=i.example.com", "init=i.example.com,j.example.com") +
			d.version() + d.how()
		if verb == "create" && !strings.HasPrefix(at, "lt") && !strings.Contains(line, "dry") {
			d.made = append(d.made, at)
		}
		return line
	case "import":
		at := d.fresh()
		if d.one(2) {
			at = d.target()
		}
		line := verb + " " + at + d.owners() + d.uses() + d.finalizers() + d.labels() + d.spec() + d.expires() +
			d.rarely(2, "deleting", "deleting", "uid=live", "uid=live", "uid=live deleting", "uid=old", "uid=any", "status=observedGeneration:1")
		d.made = append(d.made, at)
		return line + d.version() + d.how()
	case "apply", "patch", "update":
		line := verb + " " + d.target()
		if d.one(2) {
			line += d.owners()
		}
		if d.one(4) {
			line += d.uses()
		}
		if d.one(3) {
			line += d.finalizers()
		}
		if verb == "update" {
			line += d.precondition() + d.rarely(10, "owners=-") + d.rarely(10, "uses=-") + d.rarely(10, "fin=-")
		}
		return line + d.labels() + d.spec() + d.expires() + d.version() + d.how()
	case "delete":
		return "delete " + d.target() + d.policy() + d.precondition() + d.version() +
			d.rarely(8, "grace=0", "grace=0", "grace=2", "grace=-1", "policy=Never", "orphan=true policy=Orphan") + d.how()
	case "confirm":
		return "delete " + pick(d, "po/a", "po/b", "po/c", "po/d", "en/a") + " grace=0"
	case "unfinalize":
		return "unfinalize " + d.target() + " fin=" + pick(d, "example.com/x", "example.com/x", "example.com/x", "example.com/y", orphanFinalizer, foregroundFinalizer, inUseFinalizer)
	case "status":
		return "status " + pick(d, "wd/a status=observed:now", "wd/b status=observed:now", "wd/c status=observed:now", "wd/d status=observed:now",
			"po/a status=phase:Succeeded", "po/b status=phase:Failed", "cm/a status=x:1")
	case "initialize":
		return pick(d, "initialize ", "initialize ", "fail ") + d.target()
	case "deletecollection":
		return "deletecollection " + pick(d, "cm/a", "cm/a", "po/a", "rc/a", "wd/a", "en/a", "lt/a", "cm/a@x") + d.policy() + d.labels()
	case "undo":
		return "undo " + d.target() + d.policy()
	case "protect":
		return pick(d, "protect "+d.target()+" reason="+pick(d, "why", "why", "other")+d.precondition(), "unprotect "+d.target()+d.precondition(), "unprotect "+d.target(),
			"create pp/a covers="+pick(d, "cm", "web", "late"), "update pp/a covers="+pick(d, "cm", "web", "web", "late"), "update pp/a fin=example.com/x", "delete pp/a"+d.policy(),
			"unfinalize pp/a fin="+protectionFinalizer) + d.how()
	case "plan":
		return "plan " + d.target() + d.policy()
	case "container":
		d.late = true
		return pick(d, "create kind/late", "create kind/late", "create kind/late objects=1", "release", "delete kind/late", "create ns/self", "create ns/x", "delete ns/self", "delete ns/x", "create ns/x fin=example.com/x")
	case "rare":
		if !d.one(4) {
			return "work"
		}
		return pick(d, "restart processor", "stop processor", "restart finalizers", "stop finalizers", "restart scanner", "restart graph", "restart graph", "rebuild graph",
			"options", "options grace=0s", "options grace=200ms", "options propagation=cascade", "options cycles=collect", "options grace=0s propagation=cascade cycles=collect")
	case "story":
		return d.story()
	default:
		return verb
	}
}

// story draws a sequence of lines that single draws would rarely result in.
func (d *drawer) story() string {
	kind := pick(d, "cm", "cm", "po", "wd", "no")
	a, b, c := kind+"/e", kind+"/f", pick(d, "cm", "wd")+"/g"
	d.made = append(d.made, a, b, c)
	finalizer := d.rarely(2, "fin=example.com/x")
	d.next = append([]string{"create " + a + finalizer, "create " + b + " owners=" + a + pick(d, "!", "!", "")}, pick(d,
		[]string{ // a cycle whose members wait for each other, and an owner outside of it
			"update " + a + " owners=" + b + "!", "create " + c + " owners=" + a + "!," + b + "!",
			"delete " + a + " policy=Foreground", "delete " + b + d.policy(), "delete " + c + " policy=Foreground"},
		[]string{ // a cycle that loses its last owner outside of it
			"create cm/d", "update " + a + " owners=" + b + ",cm/d", "create " + c + " owners=" + b + "!", "delete cm/d" + d.policy()},
		[]string{ // two owners, and two policies
			"create cm/d fin=example.com/y", "create " + c + " owners=" + a + "!,cm/d!", "delete " + a + d.policy(), "delete cm/d" + d.policy(),
			"create po/h owners=cm/d!", "unfinalize cm/d fin=example.com/y"},
		[]string{ // three generations, with changes of the policy
			"create " + c + " owners=" + b + "!" + d.finalizers(), "delete " + a + d.policy(), "& delete " + a + d.policy(), "delete " + a + d.policy(),
			"create po/h owners=" + a + "!", "update " + b + " owners=-"},
		[]string{ // an object with the name of a removed one
			"delete " + a + " policy=Background grace=0", "unfinalize " + a + " fin=example.com/x", "create " + a, "create " + c + " owners=" + a + "!~old," + a,
			"import " + a + " uid=old", "delete " + a + d.policy()},
		[]string{ // an agent whose grace period is shortened
			"create po/h spec=nodeName:n owners=" + a + "!" + finalizer, "delete po/h grace=" + pick(d, "-1", "2", "9"), "delete po/h grace=" + pick(d, "-1", "1", "5", "60"),
			"delete " + a + d.policy(), "unfinalize po/h fin=example.com/x", "delete po/h grace=" + pick(d, "-1", "0")},
		[]string{ // an initialization that fails
			"create " + c + " owners=" + a + "! init=i.example.com,j.example.com" + d.finalizers(), "initialize " + c, "fail " + c, "delete " + a + d.policy()},
		[]string{ // a kind that is registered, deleted and registered again
			"create kind/late", "create lt/a owners=" + a + "!", "create " + c + " owners=lt/a!", "delete kind/late" + d.policy(), "create lt/b", "settle",
			"create kind/late", "settle", "delete kind/late"},
		[]string{ // a namespace that is deleted
			"create ns/x", "create cm/a@x" + d.finalizers(), "create cm/b@x owners=cm/a@x!", "delete ns/x" + d.policy(), "create cm/c@x", "unfinalize cm/a@x fin=example.com/x"},
		[]string{ // users of an object, one of which is a dependent, or below one
			"create " + c + " uses=" + a + " owners=" + pick(d, b+"!", a+"!", a, "cm/d"), "create cm/h uses=" + a + "," + pick(d, "cm/i", c), "create cm/i" + d.owners(),
			"delete " + a + d.policy(), "& delete " + c + d.policy(), "update cm/h uses=-", "delete cm/h" + d.policy(), "delete " + a + d.policy()},
		[]string{ // objects that use each other, and wait for dependents as well
			"create cm/h uses=cm/i", "create cm/i uses=" + pick(d, "cm/h", "cm/j") + finalizer, "create cm/j uses=cm/h owners=" + a + "!",
			"update " + a + " uses=" + pick(d, "cm/j", "cm/h", b), "delete cm/i" + d.policy(), "delete cm/h" + d.policy(), "delete " + a + d.policy(), "delete cm/j"},
		[]string{ // an undone deletion, with survivors that had lost references, and users
			"create cm/d", "create " + c + " owners=" + a + "!*,cm/d" + d.finalizers(), "create cm/h uses=" + a + " owners=" + b + "! fin=" + servedFinalizer, "create cm/i owners=" + a + "!" + d.labels(),
			"undo " + a + d.policy(), "unfinalize " + a + " fin=example.com/x", "undo " + a + d.policy(), "delete " + a + d.policy()},
		[]string{ // a brake that is tripped, released, and tripped again
			"delete kind/late", "create kind/late " + pick(d, "objects=1", "objects=2", "percent=30"), "create lt/a owners=" + a + pick(d, "!", "") + d.finalizers(), "create lt/b owners=" + a,
			"create lt/c owners=" + pick(d, "lt/a!", a, "lt/b"), "create lt/d owners=cm/d" + d.expires(), "create " + c + " owners=lt/b!",
			"delete " + a + d.policy(), "delete cm/d", "settle", pick(d, "update lt/b owners=-", "delete lt/b", "release"), "release", "settle", "delete " + pick(d, "kind/late", "lt/d")},
		[]string{ // objects that expire, by themselves and by a policy
			"create cm/h labels=app=web,tier=prod owners=" + a + d.finalizers(), "create " + c + " owners=cm/h! expires=soon" + d.finalizers(),
			"create xp/a " + pick(d, "minAge=1s", "minUnchanged=1s", "minAge=1s reportOnly"), pick(d, "protect cm/h reason=why", "patch cm/h labels=app=db", "settle"),
			"update " + b + " expires=past", "settle", pick(d, "unprotect cm/h", "delete xp/a", "patch cm/h expires=soon"), "create cm/j expires=soon", "update cm/j expires=late"},
		[]string{ // protections by a client and by a policy, and a deletion of what keeps the object
			"create cm/h labels=app=db,tier=prod owners=" + a + pick(d, "!", "") + d.finalizers(), "create " + c + " owners=cm/h!",
			"create pp/a covers=cm", "protect cm/h reason=why", "delete " + a + d.policy(), "delete cm/h" + d.policy(), "import cm/h uid=live deleting", "deletecollection cm/a",
			pick(d, "delete pp/a", "update pp/a covers=web", "patch cm/h labels=tier=test"), "unprotect cm/h", "unprotect cm/h", "delete pp/a"},
	)...)
	return "create cm/d"
}
