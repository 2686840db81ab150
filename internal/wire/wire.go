// Package wire walks protobuf messages without reflection, for the records
// that are read once for every object of a cascade.
package wire

import (
	"errors"

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

// Fields calls visit for the fields of a message, in the order in which they
// stand there. Fixed32 fields and groups are skipped.
func Fields(b []byte, visit func(Field) error) error {
	for at := 0; at < len(b); {
		number, typ, n := protowire.ConsumeTag(b[at:])
		if n < 0 {
			return protowire.ParseError(n)
		}
		at += n
		f := Field{Number: number, Type: typ}
		skip := false
		switch typ {
		case protowire.VarintType:
			f.Value, n = protowire.ConsumeVarint(b[at:])
		case protowire.Fixed64Type:
			f.Value, n = protowire.ConsumeFixed64(b[at:])
		case protowire.BytesType:
			var v []byte
			v, n = protowire.ConsumeBytes(b[at:])
			if n >= 0 {
				f.End = at + n
				f.Start = f.End - len(v)
			}
		default:
			n = protowire.ConsumeFieldValue(number, typ, b[at:])
			skip = true
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		at += n
		if skip {
			continue
		}
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
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
