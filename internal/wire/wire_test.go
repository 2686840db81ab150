package wire_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/coppice-gc/coppice/internal/wire"
)

// TestOpenAndClose compares fields whose lengths take one to three bytes, one
// inside the other, with those whose lengths are known before.
func TestOpenAndClose(t *testing.T) {
	t.Parallel()
	for _, length := range []int{0, 1, 124, 125, 126, 127, 128, 129, 16379, 16380, 16383, 16384, 1 << 20} {
		content := bytes.Repeat([]byte{7}, length)
		inner := protowire.AppendBytes(protowire.AppendTag(nil, 20, protowire.BytesType), content)
		want := protowire.AppendBytes(protowire.AppendTag([]byte("before"), 1, protowire.BytesType), inner)

		b, outer := wire.Open([]byte("before"), 1)
		b, at := wire.Open(b, 20)
		b = wire.Close(wire.Close(append(b, content...), at), outer)
		if !bytes.Equal(b, want) {
			t.Errorf("%d bytes: %d bytes come out, want %d", length, len(b), len(want))
		}
		for _, field := range []protowire.Number{1, 15, 16, 500} {
			want := protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), content)
			if got := wire.AppendElement(nil, field, content); !bytes.Equal(got, want) {
				t.Errorf("field %d of %d bytes: %d bytes come out, want %d", field, length, len(got), len(want))
			}
		}
	}
}
