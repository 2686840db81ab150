package eventlog

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
	"sync"

	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/codec/envelope"
	"github.com/coppice-gc/coppice/internal/codec/wire"
	"github.com/coppice-gc/coppice/internal/secret"
)

// KeyID identifies a key without revealing it.
type KeyID struct {
	Number      uint32
	Fingerprint [secret.FingerprintSize]byte
}

func (k *KeyID) decode(b []byte) error {
	return wire.Fields(b, func(f wire.Field) error {
		switch f.Number {
		case newKeyNumber:
			k.Number = uint32(f.Value)
		case newKeyFingerprint:
			if copy(k.Fingerprint[:], f.Bytes(b)) != len(k.Fingerprint) || f.End-f.Start != len(k.Fingerprint) {
				return fmt.Errorf("a fingerprint has %d bytes", len(k.Fingerprint))
			}
		}
		return nil
	})
}

// Keys authenticate the commits of one realm. They are safe for concurrent use.
type Keys struct {
	secrets secret.Secrets
	realm   string
	// unkeyed: authentication codes are not checked.
	unkeyed bool

	mu      sync.Mutex
	derived map[keyName]*key
}

// keyName identifies a derived key: the realm's id and the number of the key.
type keyName struct {
	number uint32
	realm  [16]byte
}

// key is a derived key; a nil key has no secret.
type key struct {
	id   KeyID
	macs sync.Pool // of hash.Hash
}

// NewKeys returns the keys that are derived from secrets for the realm of a name.
func NewKeys(secrets secret.Secrets, realm string) *Keys {
	return &Keys{secrets: secrets, realm: realm, derived: map[keyName]*key{}}
}

// Unkeyed returns keys for readers without a secret, such as those of a recorded log:
// Check accepts a commit without comparing its authentication code, and Fit accepts each
// key. Such readers depend on the chain of checksums alone. Nothing can be sealed.
func Unkeyed(realm string) *Keys {
	return &Keys{realm: realm, unkeyed: true, derived: map[keyName]*key{}}
}

// Unkeyed reports whether the keys are those that the function Unkeyed returns.
func (k *Keys) Unkeyed() bool { return k.unkeyed }

// mostDerived is the maximum number of cached keys: foreign messages may name any number.
const mostDerived = 64

func (k *Keys) key(number uint32, realm [16]byte) *key {
	name := keyName{number, realm}
	k.mu.Lock()
	defer k.mu.Unlock()
	if d, ok := k.derived[name]; ok {
		return d
	}
	var d *key
	if from, ok := k.secrets.Key(number, k.realm, realm); ok {
		d = &key{id: KeyID{from.Number, from.Fingerprint}}
		d.macs.New = func() any { return hmac.New(sha256.New, from.Value[:]) }
	}
	if len(k.derived) >= mostDerived {
		clear(k.derived)
	}
	k.derived[name] = d
	return d
}

// Newest returns the key of a realm that is derived from the newest secret.
func (k *Keys) Newest(realm [16]byte) KeyID {
	if d := k.key(k.secrets.Newest(), realm); d != nil {
		return d.id
	}
	return KeyID{}
}

// Fit returns a KeyError unless one of these keys is the one that must authenticate the
// next commit of the realm.
func (k *Keys) Fit(c *Chain) error {
	if k.unkeyed || c.RealmID == ([16]byte{}) {
		return nil // no key is needed, or there is no commit yet
	}
	switch d := k.key(c.Key.Number, c.RealmID); {
	case d == nil:
		return &KeyError{Realm: k.realm, Key: c.Key.Number, What: fmt.Sprintf("there is no secret of this number, the newest is %d", k.secrets.Newest())}
	case d.id != c.Key:
		return &KeyError{Realm: k.realm, Key: c.Key.Number, What: "the secret of this number is another one"}
	}
	return nil
}

// KeyError is returned if the secret of this process does not belong to the log. Waiting
// does not help. Nothing has been changed.
type KeyError struct {
	Realm string
	Key   uint32 // the number of the key that is missing; 0 if it is not known
	What  string
}

func (e *KeyError) Error() string {
	what := "its commits"
	if e.Key > 0 {
		what = fmt.Sprintf("its newest commits, with key %d", e.Key)
	}
	return fmt.Sprintf("log of realm %s: the secret of this graph service does not fit %s: %s; start it with the secret that the realm's other graph services have, or had", e.Realm, what, e.What)
}

// seal returns the message for a commit at a position of the stream, and a function that
// moves it to another position. It fails if there is no secret for the commit's key. The
// message may share the memory of commit, also the capacity behind its end.
func (k *Keys) seal(commit []byte, position uint64) (message []byte, move func(position uint64), err error) {
	h, err := commitcodec.ReadHeader(commit)
	if err != nil {
		return nil, nil, err
	}
	d := k.key(h.Key, h.RealmID)
	if d == nil {
		return nil, nil, fmt.Errorf("there is no secret for key %d", h.Key)
	}
	message = envelope.Seal(commit, position, d.authenticate)
	return message, func(position uint64) { envelope.Move(message, position, d.authenticate) }, nil
}

// Seal returns the message for a commit at a position of the stream. It fails if there is
// no secret for the commit's key. The message may share the memory of commit, also the
// capacity behind its end.
func (k *Keys) Seal(commit []byte, position uint64) (message []byte, err error) {
	message, _, err = k.seal(commit, position)
	return message, err
}

// authenticate returns the authentication code of a message.
func (d *key) authenticate(message []byte) (code [envelope.MACSize]byte) {
	mac := d.macs.Get().(hash.Hash)
	mac.Reset()
	mac.Write(message)
	var sum [sha256.Size]byte
	copy(code[:], mac.Sum(sum[:0]))
	d.macs.Put(mac)
	return code
}

// Check decodes the header of a message of the log. It also returns why the message is not
// a commit that was appended there, or "" if it is: a foreign message was written without
// the realm's key, or for another position. A commit that passes may still belong to an
// older history of the realm: see Chain.Skips.
func (k *Keys) Check(m Message) (h Header, foreign string) {
	commit, end, err := envelope.Split(m.Data)
	if err == nil {
		h, err = commitcodec.ReadHeader(commit)
	}
	if err != nil {
		return h, err.Error()
	}
	if !k.unkeyed && !m.Chained {
		d := k.key(h.Key, h.RealmID)
		if d == nil {
			return h, fmt.Sprintf("it names key %d, for which there is no secret", h.Key)
		}
		if want := d.authenticate(end.Authenticated); !hmac.Equal(end.Code, want[:]) {
			return h, "it is not authenticated with the key of the realm"
		}
	}
	if end.Position != m.Position {
		return h, fmt.Sprintf("it is a copy of the message at sequence %d", end.Position)
	}
	return h, ""
}

// Resembles reports whether a message that did not pass Check looks like a commit
// that was appended at its position with another secret.
func (k *Keys) Resembles(m Message) bool {
	commit, end, err := envelope.Split(m.Data)
	if err != nil {
		return false
	}
	h, err := commitcodec.ReadHeader(commit)
	return err == nil && end.Position == m.Position && h.ID != [16]byte{} && h.Epoch > 0
}
