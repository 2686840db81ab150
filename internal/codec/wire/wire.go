// Package wire walks protobuf messages without reflection, for the records
// that are read once for every object of a cascade.
package wire

import (
	"errors"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field is one field of a message: its value, or where its bytes are.
type Field struct {
	Number     protowire.Number
	Type       protowire.Type
	Value      uint64 // of varint and fixed64 fields
	Start, End int    // of bytes fields: b[Start:End]
}

// Bytes returns the bytes of the field in the message b.
func (f Field) Bytes(b []byte) []byte { return b[f.Start:f.End] }

// String returns the bytes of the field in s, the message as a string.
func (f Field) String(s string) string { return s[f.Start:f.End] }

// ErrType is for a field that has another wire type than its number says.
var ErrType = errors.New("wrong wire type")

// Reader walks the fields of a message, in the order in which they stand there.
// Fixed32 fields and groups are skipped.
type Reader struct {
	b   []byte
	at  int
	err error
}

// Read returns a reader of the message b.
func Read(b []byte) Reader { return Reader{b: b} }

// Err is why Next returned false, nil at the end of the message.
func (r *Reader) Err() error { return r.err }

// Next returns the next field, and false when there is none.
func (r *Reader) Next() (f Field, ok bool) {
	for r.at < len(r.b) {
		if tag := r.b[r.at]; tag < 0x80 && tag>>3 != 0 && r.short(&f, tag) { // most
			return f, true
		}
		number, typ, n := protowire.ConsumeTag(r.b[r.at:])
		if n < 0 {
			r.err = protowire.ParseError(n)
			return f, false
		}
		r.at += n
		f.Number, f.Type = number, typ
		known := true
		switch typ {
		case protowire.VarintType:
			f.Value, n = protowire.ConsumeVarint(r.b[r.at:])
		case protowire.BytesType:
			var length uint64
			length, n = protowire.ConsumeVarint(r.b[r.at:])
			if n >= 0 {
				if length > uint64(len(r.b)-r.at-n) {
					r.err = io.ErrUnexpectedEOF
					return f, false
				}
				f.Start = r.at + n
				n += int(length)
				f.End = r.at + n
			}
		case protowire.Fixed64Type:
			f.Value, n = protowire.ConsumeFixed64(r.b[r.at:])
		default:
			n = protowire.ConsumeFieldValue(number, typ, r.b[r.at:])
			known = false
		}
		if n < 0 {
			r.err = protowire.ParseError(n)
			return f, false
		}
		r.at += n
		if known {
			return f, true
		}
	}
	return f, false
}

// short reads the next field if that is a varint or bytes with a value or a
// length of one byte. tag is of one byte, and not zero.
func (r *Reader) short(f *Field, tag byte) bool {
	if len(r.b)-r.at < 2 || r.b[r.at+1] >= 0x80 {
		return false
	}
	f.Number, f.Type = protowire.Number(tag>>3), protowire.Type(tag&7)
	value, after := int(r.b[r.at+1]), r.at+2
	switch f.Type {
	case protowire.VarintType:
		f.Value, r.at = uint64(value), after
		return true
	case protowire.BytesType:
		if value <= len(r.b)-after {
			f.Start, f.End = after, after+value
			r.at = f.End
			return true
		}
	}
	return false
}

// Fields calls visit for the fields of a message, as a Reader has them.
func Fields(b []byte, visit func(Field) error) error {
	r := Read(b)
	for {
		f, ok := r.Next()
		if !ok {
			return r.Err()
		}
		if err := visit(f); err != nil {
			return err
		}
	}
}

// Varints appends the values of a packed repeated varint field to dst.
func Varints(dst []uint64, b []byte) ([]uint64, error) {
	for len(b) > 0 {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return dst, protowire.ParseError(n)
		}
		dst, b = append(dst, v), b[n:]
	}
	return dst, nil
}

// AppendBytes appends a bytes field, unless it is empty.
func AppendBytes[T []byte | string](b []byte, field protowire.Number, v T) []byte {
	if len(v) == 0 {
		return b
	}
	return AppendElement(b, field, v)
}

// AppendElement appends a bytes field even if it is empty.
func AppendElement[T []byte | string](b []byte, field protowire.Number, v T) []byte {
	if field < 16 && len(v) < 128 { // most
		b = append(b, byte(field)<<3|byte(protowire.BytesType), byte(len(v)))
		return append(b, v...)
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(v)))
	return append(b, v...)
}

// AppendVarint appends a varint field, unless it is zero.
func AppendVarint(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.VarintType)
	return protowire.AppendVarint(b, v)
}

// AppendFixed64 appends a fixed64 field, unless it is zero.
func AppendFixed64(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.Fixed64Type)
	return protowire.AppendFixed64(b, v)
}

// Open begins a bytes field whose length is not known yet. What is appended
// until Close is its content.
func Open(b []byte, field protowire.Number) (opened []byte, content int) {
	b = append(protowire.AppendTag(b, field, protowire.BytesType), 0)
	return b, len(b)
}

// Close ends the field that was opened last; content is what Open returned.
func Close(b []byte, content int) []byte {
	length := len(b) - content
	if more := protowire.SizeVarint(uint64(length)) - 1; more > 0 {
		var room [10]byte
		b = append(b, room[:more]...)
		copy(b[content+more:], b[content:])
	}
	protowire.AppendVarint(b[:content-1], uint64(length))
	return b
}
