package view

// SignIn is the body of POST /api/session. One of its ways to sign in is set.
type SignIn struct {
	// Token is that of the address which `coppice up` prints.
	Token string `json:"token,omitempty"`
	// User and Password are those of a NATS user.
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
	// Credentials is the text of a credentials file.
	Credentials string `json:"credentials,omitempty"`
}

// Ways say how people sign in to this console. It is the reply to GET /api/session without a session.
type Ways struct {
	// Local: people sign in by the address that `coppice up` prints, and in no other way.
	Local   bool   `json:"local"`
	Version string `json:"version"`
}

// Session is who is signed in.
type Session struct {
	// User is the actor of what this session does.
	User string `json:"user"`
	// Local: the session is that of the local user of a `coppice up` without passwords.
	Local bool `json:"local"`
	// CSRF is sent back in the header Coppice-CSRF of each request that changes something.
	CSRF    string `json:"csrf"`
	Version string `json:"version"`
	// Realms are the realms that this user can open, ordered by name.
	Realms []Realm `json:"realms"`
	// IdleSeconds is the time without a request after which the session ends.
	IdleSeconds int `json:"idleSeconds"`
}

// Realm is a realm that a user can open.
type Realm struct {
	Name string `json:"name"`
	// State is active, deleting or deleted; empty if the user may not list realms.
	State string `json:"state,omitempty"`
	// Writer is the graph service that writes the realm, as it names itself; empty if there is none, or if that is not known.
	Writer string `json:"writer,omitempty"`
	// Waiting is what a deletion of the realm waits for.
	Waiting string `json:"waiting,omitempty"`
}

// Failure is the body of each reply that is not a success.
type Failure struct {
	// Reason is for programs: SignedOut, Forbidden, NotFound, Conflict and other reasons of the object API.
	Reason string `json:"reason"`
	// Message says what failed, and what to do.
	Message string `json:"message"`
	// Causes are the details: what changed since a plan, and what of a request is wrong.
	Causes []string `json:"causes,omitempty"`
	// Call is the id of the call that the program of a finalizer works on, if that is why the finalizer is not removed by force.
	Call uint64 `json:"call,omitempty"`
	// Retry: the same request may succeed later.
	Retry bool `json:"retry,omitempty"`
}

// ReasonSignedOut is the reason of an error if there is no session, or if it has ended.
const ReasonSignedOut = "SignedOut"
