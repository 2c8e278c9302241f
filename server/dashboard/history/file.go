package history

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"time"

	"github.com/dulymq/duly/internal/durable"
)

// FileName is the name of the history's file in the data folder.
const FileName = "ui-history"

// magic begins the file. Its last byte is the version.
const magic = "duly-ui-history\x02"

// save writes the file, if the history has one. An error leaves the old file.
func (h *History) save() {
	if h.cfg.Path == "" {
		return
	}
	if err := h.write(); err != nil {
		h.cfg.Log.Warn("the history of the dashboard could not be written", "path", h.cfg.Path, "error", err.Error())
	}
}

// line is one line of the file: a namespace, or a queue of the namespace before it.
type line struct {
	Name      string
	Width     int        `json:",omitzero"` // of a namespace's series
	Namespace *namespace `json:",omitzero"`
	Queue     *queue     `json:",omitzero"`
}

func (h *History) write() error {
	names := h.names()
	// An unused dashboard writes nothing, unless its last namespace has just become too old.
	if _, err := os.Stat(h.cfg.Path); len(names) == 0 && err != nil {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(h.cfg.Path), "."+filepath.Base(h.cfg.Path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails if the file was already renamed

	sum := crc32.NewIEEE()
	out := io.MultiWriter(f, sum)
	_, err = io.WriteString(out, magic)
	for i := 0; i < len(names) && err == nil; i++ {
		var text bytes.Buffer
		if err = h.encode(names[i], json.NewEncoder(&text)); err == nil {
			_, err = text.WriteTo(out)
		}
	}
	_, last := f.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
	if err = errors.Join(err, last); err != nil {
		return errors.Join(err, f.Close())
	}
	return durable.Place(f, h.cfg.Path)
}

// encode writes the lines of a namespace. Each namespace takes the lock for itself, so a large history stops no page
// for long.
func (h *History) encode(name string, to *json.Encoder) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.namespaces[name]
	if n == nil {
		return nil
	}
	err := to.Encode(line{Name: name, Width: h.width(), Namespace: n})
	for name, q := range n.queues {
		err = errors.Join(err, to.Encode(line{Name: name, Queue: q}))
	}
	return err
}

// load reads the file. A file that cannot be read leaves the history empty.
func (h *History) load() {
	if h.cfg.Path == "" {
		return
	}
	info, err := os.Stat(h.cfg.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil && info.Size() > 2*h.cfg.Memory+1<<20 {
		err = fmt.Errorf("it has %d bytes", info.Size())
	}
	if err == nil {
		var text []byte
		text, err = os.ReadFile(h.cfg.Path)
		err = cmp.Or(err, h.read(text))
	}
	if err != nil {
		h.namespaces = map[string]*namespace{}
		h.cfg.Log.Warn("the history of the dashboard begins empty, because its file cannot be read",
			"path", h.cfg.Path, "error", err.Error())
	}
}

func (h *History) read(text []byte) error {
	if len(text) < len(magic)+4 || string(text[:len(magic)]) != magic {
		return errors.New("it is not a history of this version")
	}
	body, sum := text[:len(text)-4], binary.LittleEndian.Uint32(text[len(text)-4:])
	if crc32.ChecksumIEEE(body) != sum {
		return errors.New("its checksum is wrong")
	}

	lines, current := json.NewDecoder(bytes.NewReader(body[len(magic):])), h.newNamespace()
	for lines.More() {
		var l line
		err := lines.Decode(&l)
		switch {
		case err != nil:
		case l.Namespace != nil && l.Width != h.width():
			err = fmt.Errorf("its steps have %d numbers, want %d", l.Width, h.width())
		case l.Namespace != nil:
			current = l.Namespace
			current.queues = map[string]*queue{}
			h.namespaces[l.Name] = current
			err = current.Total.adopt(namespaceKeep, h.width())
		case l.Queue != nil:
			current.queues[l.Name] = l.Queue
			err = l.Queue.Series.adopt(queueKeep, int(columns))
		}
		if err != nil {
			return err
		}
	}
	for _, n := range h.namespaces {
		n.checkFuture(h.cfg.Clock.Now())
	}
	return nil
}

// adopt prepares a series of the file for use.
func (s *series) adopt(keep [len(steps)]int, width int) error {
	for i := 0; s != nil && i < len(s.Rings); i++ {
		r := &s.Rings[i]
		r.step, r.keep, r.width = steps[i], keep[i], width
		for _, p := range r.Pieces {
			if p == nil || p.First < 0 || p.First%perPiece != 0 || p.Seen>>perPiece != 0 || len(p.Values) != perPiece*width {
				return errors.New("it has impossible steps")
			}
		}
	}
	return nil
}

// checkFuture removes what lies after the present: the wall clock has stepped back while no process ran.
func (n *namespace) checkFuture(now time.Time) {
	newest := &n.Total.Rings[0]
	if len(newest.Pieces) == 0 {
		return
	}
	last := newest.Pieces[len(newest.Pieces)-1]
	step := newest.start(last.First + int64(bits.Len64(last.Seen)) - 1)
	if ahead := step.Sub(now); ahead > minClockStep {
		n.mark(Mark{At: now, By: -ahead.Round(time.Second)})
		n.cut(now)
	}
}

// floats have the form of base64 in the file.
type floats []float32

// MarshalText implements encoding.TextMarshaler.
func (f floats) MarshalText() ([]byte, error) {
	text, err := binary.Append(nil, binary.LittleEndian, f)
	return base64.StdEncoding.AppendEncode(nil, text), err
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *floats) UnmarshalText(text []byte) error {
	bytes, err := base64.StdEncoding.AppendDecode(nil, text)
	*f = make(floats, len(bytes)/4)
	if err == nil {
		_, err = binary.Decode(bytes, binary.LittleEndian, *f)
	}
	return err
}
