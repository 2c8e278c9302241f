package lmstfyimport

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Journal has the imported jobs. A nil Journal is empty.
type Journal struct {
	file *os.File
	seen map[string]struct{}
}

// OpenJournal reads a journal, or creates one. about names source and target, without secrets. It
// returns [duly.ErrConflict] for a journal of another pair.
func OpenJournal(path, about string) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	j := &Journal{file: file, seen: map[string]struct{}{}}
	if err := j.read(about); err != nil {
		file.Close()
		return nil, err
	}
	return j, nil
}

func (j *Journal) read(about string) error {
	header := "duly import lmstfy: " + about
	lines := bufio.NewReader(j.file)
	whole := int64(0) // number of bytes in complete lines; an incomplete last line is removed

	for n := 0; ; n++ {
		line, err := lines.ReadString('\n')
		// If the journal can't be read, its rest must not be removed.
		if err != nil && err != io.EOF {
			return err
		}
		if err != nil {
			// Without a newline the file may be a journal whose first line was cut off.
			if n == 0 && !strings.HasPrefix(header, line) {
				return otherJournal(j.file.Name())
			}
			break
		}
		whole += int64(len(line))
		line = strings.TrimSuffix(line, "\n")
		switch {
		case n > 0:
			j.seen[line] = struct{}{}
		case line != header:
			return otherJournal(j.file.Name())
		}
	}

	if err := j.file.Truncate(whole); err != nil {
		return err
	}
	if _, err := j.file.Seek(whole, 0); err != nil {
		return err
	}
	if whole > 0 {
		return nil
	}
	_, err := fmt.Fprintln(j.file, header)

	return err
}

func otherJournal(path string) error {
	return contract.Errorf(duly.CodeConflict,
		"%s is not the journal of this import; choose another --journal, or delete the file", path)
}

// has reports whether a job was imported.
func (j *Journal) has(q duly.QueueRef, id string) bool {
	if j == nil {
		return false
	}
	_, ok := j.seen[q.String()+"/"+id]
	return ok
}

// add adds imported jobs.
func (j *Journal) add(q duly.QueueRef, ids []string) error {
	if j == nil || len(ids) == 0 {
		return nil
	}
	var text strings.Builder
	for _, id := range ids {
		key := q.String() + "/" + id
		j.seen[key] = struct{}{}
		text.WriteString(key + "\n")
	}
	if _, err := j.file.WriteString(text.String()); err != nil {
		return err
	}
	// A job must not be imported twice after a power cut.
	return j.file.Sync()
}

// Close closes the file.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	if err := j.file.Close(); !errors.Is(err, fs.ErrClosed) {
		return err
	}
	return nil
}
