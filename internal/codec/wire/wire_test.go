package wire_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/codec/wire"
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

// TestReader holds what a Reader says against what was appended, and of a message
// that is cut off that it is.
func TestReader(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type field struct {
			number protowire.Number
			typ    protowire.Type
			value  uint64
			bytes  string
		}
		var b []byte
		var want []field
		ends := map[int]int{0: 0} // where a field ends, and how many do until there
		for range rapid.IntRange(0, 6).Draw(t, "fields") {
			f := field{number: protowire.Number(rapid.SampledFrom([]int{1, 2, 15, 16, 31, 2047, 2048}).Draw(t, "number"))}
			value := rapid.SampledFrom([]uint64{0, 1, 127, 128, 300, 1 << 40}).Draw(t, "value")
			b = protowire.AppendTag(b, f.number, rapid.SampledFrom([]protowire.Type{
				protowire.VarintType, protowire.BytesType, protowire.Fixed64Type, protowire.Fixed32Type,
			}).Draw(t, "type"))
			_, f.typ, _ = protowire.ConsumeTag(b[len(b)-protowire.SizeTag(f.number):])
			switch f.typ {
			case protowire.VarintType:
				f.value = value
				b = protowire.AppendVarint(b, value)
			case protowire.BytesType:
				f.bytes = strings.Repeat("x", int(value%301))
				b = protowire.AppendString(b, f.bytes)
			case protowire.Fixed64Type:
				f.value = value
				b = protowire.AppendFixed64(b, value)
			default:
				b = protowire.AppendFixed32(b, uint32(value))
				ends[len(b)] = len(want)
				continue // skipped
			}
			want = append(want, f)
			ends[len(b)] = len(want)
		}
		for end := range len(b) + 1 {
			n, whole := ends[end]
			r := wire.Read(b[:end])
			var got []field
			for f, ok := r.Next(); ok; f, ok = r.Next() {
				have := field{number: f.Number, typ: f.Type}
				if f.Type == protowire.BytesType {
					have.bytes = string(f.Bytes(b))
				} else {
					have.value = f.Value
				}
				got = append(got, have)
			}
			if (r.Err() == nil) != whole || whole && !slices.Equal(got, want[:n]) {
				t.Fatalf("of %d bytes of %x: %v, %v, want %v", end, b, got, r.Err(), want[:n])
			}
		}
	})
	for _, b := range [][]byte{{0, 1}, {2, 1, 'x'}, {0x80, 0, 1}} {
		r := wire.Read(b)
		if f, ok := r.Next(); ok || r.Err() == nil {
			t.Errorf("%x is read as %+v: no field has the number 0", b, f)
		}
	}
}
