package objects

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// A continue token has the name of the last object that was read. Where that can be an object that the actor may not get, the token
// is encrypted, with a key that all graph services of the installation have.

// seal encrypts a token.
func (g *Grants) seal(token string) (string, *lifecycle.Error) {
	number := g.secrets.Newest()
	box, err := g.box(number)
	if err != nil {
		return "", err
	}
	sealed := binary.BigEndian.AppendUint32(nil, number)
	nonce := make([]byte, box.NonceSize())
	_, _ = rand.Read(nonce) // it never fails
	sealed = append(sealed, nonce...)
	return base64.RawURLEncoding.EncodeToString(box.Seal(sealed, nonce, []byte(token), nil)), nil
}

// open decrypts a token.
func (g *Grants) open(text string) (string, *lifecycle.Error) {
	sealed, fail := base64.RawURLEncoding.DecodeString(text)
	if fail == nil && len(sealed) > 4 {
		box, err := g.box(binary.BigEndian.Uint32(sealed))
		if err == nil && len(sealed) >= 4+box.NonceSize() {
			rest := sealed[4:]
			token, fail := box.Open(nil, rest[:box.NonceSize()], rest[box.NonceSize():], nil)
			if fail == nil {
				return string(token), nil
			}
		}
	}
	return "", lifecycle.ErrBadRequest("continue: it is not a token that a graph service of this installation gave this user; list from the start")
}

// Seal encrypts a continue token of another verb.
func (s *Replica) Seal(token string) (string, *lifecycle.Error) { return s.c.Grants.seal(token) }

// Open decrypts a token of Seal.
func (s *Replica) Open(sealed string) (string, *lifecycle.Error) { return s.c.Grants.open(sealed) }

// box returns the cipher of tokens by the secret of a number.
func (g *Grants) box(number uint32) (cipher.AEAD, *lifecycle.Error) {
	key, ok := g.secrets.GrantKey(number, g.realm, g.id())
	if !ok {
		return nil, lifecycle.ErrBadRequest("continue: the secret of the token is not known any more; list from the start")
	}
	of := sha256.Sum256(append([]byte("continue tokens"), key[:]...)) // not the key of grants
	block, err := aes.NewCipher(of[:])
	if err == nil {
		var box cipher.AEAD
		if box, err = cipher.NewGCM(block); err == nil {
			return box, nil
		}
	}
	panic(err) // keys of this size are never refused
}
