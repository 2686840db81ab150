// Package must ends a test whose next steps make no sense after an error. It imports no other
// package of this module, so that each test can use it.
package must

// T is a *testing.T, a *testing.B or a *rapid.T.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Succeed ends the test with err, unless err is nil. A nil pointer of a type that implements error
// is nil here as well, unlike in a variable of type error.
func Succeed[E interface {
	error
	comparable
}](t T, err E) {
	t.Helper()
	var none E
	if err != none {
		t.Fatal(err)
	}
}
