package history

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dulymq/duly/internal/durable"
)

// FileName is the name of the history's file in the data folder.
const FileName = "ui-history"

// magic begins the file. Its last byte is the version.
const magic = "duly-ui-history\x01"

// save writes the file, if the history has one. An error leaves the old file.
func (h *History) save() {
	if h.cfg.Path == "" {
		return
	}
	if err := h.write(); err != nil {
		h.cfg.Log.Warn("the history of the dashboard could not be written", "path", h.cfg.Path, "error", err.Error())
	}
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
	out := bufio.NewWriter(f)
	both := io.MultiWriter(out, sum)
	text := []byte(magic)
	text = binary.AppendUvarint(text, uint64(h.width()))
	// Each namespace takes the lock for itself, so a large history stops no page for long.
	for _, name := range names {
		h.mu.Lock()
		if n := h.namespaces[name]; n != nil {
			text = n.append(text, name)
		}
		h.mu.Unlock()
		_, err = both.Write(text)
		text = text[:0]
	}
	_, failed := both.Write(text)
	_, last := out.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
	if err := errors.Join(err, failed, last, out.Flush()); err != nil {
		return errors.Join(err, f.Close())
	}
	return durable.Place(f, h.cfg.Path)
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
	var text []byte
	if err == nil {
		text, err = os.ReadFile(h.cfg.Path)
	}
	if err == nil {
		err = h.read(text)
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
	r := &reader{text: body[len(magic):]}
	if width := r.number(); width != int64(h.width()) {
		return fmt.Errorf("its steps have %d numbers, want %d", width, h.width())
	}
	for len(r.text) > 0 && r.err == nil {
		name := r.string()
		n := h.newNamespace()
		n.read(r)
		h.namespaces[name] = n
		n.checkFuture(h.cfg.Clock.Now())
	}
	return r.err
}

// checkFuture removes what lies after the present: the wall clock has stepped back while no process ran.
func (n *namespace) checkFuture(now time.Time) {
	newest := &n.total.rings[0]
	if len(newest.pieces) == 0 {
		return
	}
	last := newest.pieces[len(newest.pieces)-1]
	step := newest.start(last.first + int64(bits.Len64(last.seen)) - 1)
	if ahead := step.Sub(now); ahead > minClockStep {
		n.mark(Mark{At: now, By: -ahead.Round(time.Second)})
		n.cut(now)
	}
}

// append appends a namespace.
func (n *namespace) append(text []byte, name string) []byte {
	text = appendString(text, name)
	text = binary.AppendVarint(text, n.visit.UnixMilli())
	text = binary.AppendUvarint(text, uint64(len(n.marks)))
	for _, m := range n.marks {
		text = binary.AppendVarint(text, m.At.UnixMilli())
		text = binary.AppendVarint(text, m.By.Milliseconds())
	}
	text = n.total.append(text)

	names := make([]string, 0, len(n.queues))
	for name := range n.queues {
		names = append(names, name)
	}
	slices.Sort(names)
	text = binary.AppendUvarint(text, uint64(len(names)))
	for _, name := range names {
		q := n.queues[name]
		text = appendString(text, name)
		for _, t := range q.recent.moments() {
			text = appendTime(text, *t)
		}
		text = q.series.append(text)
	}
	return text
}

func (n *namespace) read(r *reader) {
	n.visit = time.UnixMilli(r.signed()).UTC()
	for range r.count() {
		m := Mark{At: time.UnixMilli(r.signed()).UTC()}
		m.By = time.Duration(r.signed()) * time.Millisecond
		n.marks = append(n.marks, m)
	}
	n.total.read(r)
	for range r.count() {
		q := &queue{}
		name := r.string()
		for _, t := range q.recent.moments() {
			*t = r.time()
		}
		q.series = newSeries(queueKeep, int(columns))
		if q.series.read(r); q.series.empty() {
			q.series = nil
		}
		n.queues[name] = q
	}
}

// moments returns the times that must survive a restart.
func (r *Recent) moments() []*time.Time {
	return []*time.Time{&r.Waiting, &r.Full, &r.Paused, &r.Died, &r.Dropped}
}

func (s *series) empty() bool {
	for i := range s.rings {
		if len(s.rings[i].pieces) > 0 {
			return false
		}
	}
	return true
}

// append appends the steps that were looked at. A nil series has none.
func (s *series) append(text []byte) []byte {
	if s == nil {
		return append(text, make([]byte, len(steps))...)
	}
	for i := range s.rings {
		r := &s.rings[i]
		text = binary.AppendUvarint(text, uint64(len(r.pieces)))
		for _, p := range r.pieces {
			text = binary.AppendUvarint(text, uint64(p.first))
			text = binary.AppendUvarint(text, p.seen)
			for at := range perPiece {
				if p.seen&(1<<at) == 0 {
					continue
				}
				for _, v := range p.values[at*r.width : (at+1)*r.width] {
					text = binary.LittleEndian.AppendUint32(text, math.Float32bits(v))
				}
			}
		}
	}
	return text
}

func (s *series) read(from *reader) {
	for i := range s.rings {
		r := &s.rings[i]
		for range from.count() {
			first, seen := from.number(), uint64(from.number())
			if from.err != nil || first < 0 || first%perPiece != 0 || seen>>perPiece != 0 {
				from.fail()
				return
			}
			for at := range int64(perPiece) {
				if seen&(1<<at) == 0 {
					continue
				}
				values := r.see(first + at)
				for c := range values {
					values[c] = from.float()
				}
			}
		}
	}
}

// reader reads numbers from a string. After a fault everything is zero.
type reader struct {
	text []byte
	err  error
}

func (r *reader) fail() {
	r.err = errors.New("it ends early or has an impossible number")
	r.text = nil
}

func (r *reader) number() int64 {
	v, n := binary.Uvarint(r.text)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.text = r.text[n:]
	return int64(v)
}

func (r *reader) signed() int64 {
	v, n := binary.Varint(r.text)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.text = r.text[n:]
	return v
}

// count reads the length of a list. Each element has at least one byte.
func (r *reader) count() int64 {
	n := r.number()
	if n < 0 || n > int64(len(r.text)) {
		r.fail()
		return 0
	}
	return n
}

func (r *reader) string() string {
	n := r.count()
	s := string(r.text[:n])
	r.text = r.text[n:]
	return s
}

func (r *reader) float() float32 {
	if len(r.text) < 4 {
		r.fail()
		return 0
	}
	v := math.Float32frombits(binary.LittleEndian.Uint32(r.text))
	r.text = r.text[4:]
	return v
}

// time reads a time. Zero means none.
func (r *reader) time() (t time.Time) {
	if ms := r.signed(); ms != 0 {
		t = time.UnixMilli(ms).UTC()
	}
	return t
}

func appendTime(text []byte, t time.Time) []byte {
	if t.IsZero() {
		return binary.AppendVarint(text, 0)
	}
	return binary.AppendVarint(text, t.UnixMilli())
}

func appendString(text []byte, s string) []byte {
	return append(binary.AppendUvarint(text, uint64(len(s))), s...)
}
