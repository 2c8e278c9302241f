package resp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func TestValuesAreWrittenAndReadInBothVersions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		value      any
		two, three string
		back       any // the value that is read back in version 3, if it differs
	}{
		{"Bulk", "a\r\n", "$3\r\na\r\n\r\n", "$3\r\na\r\n\r\n", nil},
		{"Empty", "", "$0\r\n\r\n", "$0\r\n\r\n", nil},
		{"Simple", Simple("OK"), "+OK\r\n", "+OK\r\n", "OK"},
		{"Error", Error("ERR no"), "-ERR no\r\n", "-ERR no\r\n", nil},
		{"Int", int64(-7), ":-7\r\n", ":-7\r\n", nil},
		{"SmallInt", 7, ":7\r\n", ":7\r\n", int64(7)},
		{"Double", 1.5, "$3\r\n1.5\r\n", ",1.5\r\n", nil},
		{"True", true, ":1\r\n", "#t\r\n", nil},
		{"False", false, ":0\r\n", "#f\r\n", nil},
		{"Array", []any{"a", int64(1), []any{}}, "*3\r\n$1\r\na\r\n:1\r\n*0\r\n", "*3\r\n$1\r\na\r\n:1\r\n*0\r\n", nil},
		{"ArrayOfNil", []any{nil}, "*1\r\n$-1\r\n", "*1\r\n_\r\n", nil},
		{"Map", Map{"k", true}, "*2\r\n$1\r\nk\r\n:1\r\n", "%1\r\n$1\r\nk\r\n#t\r\n", nil},
		{"Set", Set{"k"}, "*1\r\n$1\r\nk\r\n", "~1\r\n$1\r\nk\r\n", nil},
		{"Push", Push{"message"}, "*1\r\n$7\r\nmessage\r\n", ">1\r\n$7\r\nmessage\r\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := string(Append(nil, tt.value, 2)); got != tt.two {
				t.Errorf("version 2: %q", got)
			}
			if got := string(Append(nil, tt.value, 3)); got != tt.three {
				t.Errorf("version 3: %q", got)
			}
			want := tt.back
			if want == nil {
				want = tt.value
			}
			r := NewReader(iotest.OneByteReader(strings.NewReader(tt.three + "+next\r\n")))
			if got, err := r.Read(); err != nil || !reflect.DeepEqual(got, want) || string(r.Raw()) != tt.three {
				t.Errorf("read %#v, %v, raw %q", got, err, r.Raw())
			}
			if got, err := r.Read(); got != "next" || err != nil {
				t.Errorf("then read %v, %v", got, err)
			}
			if _, err := r.Read(); err != io.EOF {
				t.Errorf("at the end: %v", err)
			}
		})
	}

	for raw, want := range map[string]any{
		"$-1\r\n": nil, "*-1\r\n": nil, "_\r\n": nil, "(123456789012345678901234567890\r\n": "123456789012345678901234567890",
		"=6\r\ntxt:hi\r\n": "hi", "!5\r\nERR x\r\n": Error("ERR x"), "|1\r\n+ttl\r\n:3\r\n+OK\r\n": "OK",
	} {
		if got, err := NewReader(strings.NewReader(raw)).Read(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is read as %#v, %v", raw, got, err)
		}
	}
}

func TestInvalidValuesAreRefused(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"GET k\r\n", "$x\r\n", "$-2\r\n", "$999999999999\r\n", "*99999999\r\n", "\r\n", "+OK\n", ":x\r\n", "$1\r\nabcd",
		strings.Repeat("*1\r\n", 100),
	} {
		if v, err := NewReader(strings.NewReader(raw)).Read(); err == nil || err == io.EOF {
			t.Errorf("%.20q is read as %v, %v", raw, v, err)
		}
	}
	for _, raw := range []string{"$3\r\nab", "*2\r\n+a\r\n", "*1\r\n", "+O", "|1\r\n+a\r\n+b\r\n"} {
		if _, err := NewReader(strings.NewReader(raw)).Read(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q, which is cut off, answers %v", raw, err)
		}
	}
}

func TestReadCommandReadsArraysOfStrings(t *testing.T) {
	t.Parallel()
	sent := AppendCommand(nil, "SET", []byte("k"), 7, 1.5)
	if got, err := NewReader(bytes.NewReader(sent)).ReadCommand(); err != nil || strings.Join(got, " ") != "SET k 7 1.5" {
		t.Errorf("read %q, %v", got, err)
	}
	for _, raw := range []string{"+PING\r\n", "*0\r\n", "*1\r\n:1\r\n", "*-1\r\n"} {
		if got, err := NewReader(strings.NewReader(raw)).ReadCommand(); err == nil {
			t.Errorf("%q is the request %q", raw, got)
		}
	}
}

func TestDoEndsWithItsContext(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	c := NewConn(near)
	defer c.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		NewReader(far).ReadCommand()
		cancel(errors.New("enough"))
	}()
	if _, err := c.Do(ctx, "PING"); err == nil || err.Error() != "enough" {
		t.Errorf("got %v", err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"))
	f.Add([]byte("%1\r\n+a\r\n~1\r\n,1.5\r\n"))
	f.Add([]byte("|1\r\n+ttl\r\n:3\r\n>2\r\n_\r\n#t\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := NewReader(bytes.NewReader(raw))
		for at := 0; ; at += len(r.Raw()) {
			v, err := r.Read()
			if err != nil {
				return
			}
			if !bytes.HasPrefix(raw[at:], r.Raw()) {
				t.Fatalf("raw %q at %d of %q", r.Raw(), at, raw)
			}
			Append(Append(nil, v, 2), v, 3) // every value that was read can be written
		}
	})
}
