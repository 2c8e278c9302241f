package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	// maxFile is the size at which the next file begins.
	maxFile = 16 << 20
	// maxFiles bounds the files together at 1 GiB, maxAge their age.
	maxFiles = 1 << 30 / maxFile
	maxAge   = 400 * 24 * time.Hour
)

// file is what the log needs of an *os.File.
type file interface {
	io.ReaderAt
	io.Writer
	Sync() error
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
	Close() error
}

func openFile(path string) (file, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
}

// files are the files of a log. Their names sort by age.
type files struct {
	dir  string
	open func(path string) (file, error)
	// number is the number of the current file, 0 before the first line.
	number int
}

func (f *files) path(number int) string {
	return filepath.Join(f.dir, fmt.Sprintf("audit-%08d.jsonl", number))
}

// list returns the paths of the files, the oldest first.
func (f *files) list() ([]string, error) {
	return filepath.Glob(filepath.Join(f.dir, "audit-????????.jsonl"))
}

// append writes a line. After an error the file has no part of it.
func (f *files) append(text []byte, sync bool, now time.Time) error {
	if f.number == 0 {
		if err := f.begin(); err != nil {
			return err
		}
	}
	to, err := f.open(f.path(f.number))
	if err != nil {
		return err
	}
	info, err := to.Stat()
	if err == nil && info.Size() > 0 && info.Size()+int64(len(text)) > maxFile {
		to.Close()
		f.number++
		f.prune(now)
		return f.append(text, sync, now)
	}
	if err == nil {
		err = appendTo(to, info.Size(), text, sync)
	}
	return errors.Join(err, to.Close())
}

// begin finds the newest file. It creates the folder if it does not exist.
func (f *files) begin() error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	old, err := f.list()
	if err != nil {
		return err
	}
	if f.number = 1; len(old) > 0 {
		_, err = fmt.Sscanf(filepath.Base(old[len(old)-1]), "audit-%d.jsonl", &f.number)
	}
	return err
}

func appendTo(to file, size int64, text []byte, sync bool) error {
	// A process that ended within a line has left a part of it.
	if last := make([]byte, 1); size > 0 {
		if _, err := to.ReadAt(last, size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			text = append([]byte{'\n'}, text...)
		}
	}
	_, err := to.Write(text)
	if err == nil && sync {
		err = to.Sync()
	}
	if err != nil {
		return errors.Join(err, to.Truncate(size))
	}
	return nil
}

// prune removes files that are too old or too many. A failure only delays it.
func (f *files) prune(now time.Time) {
	list, err := f.list()
	if err != nil {
		return
	}
	for i, path := range list {
		info, err := os.Stat(path)
		if err == nil && (len(list)-i >= maxFiles || now.Sub(info.ModTime()) > maxAge) {
			_ = os.Remove(path)
		}
	}
}

// unfinished returns the actions of the two newest files that have no outcome. Older ones have ended: an action takes
// far less time than two files.
func (f *files) unfinished() (ids []string, err error) {
	list, err := f.list()
	if err != nil {
		return nil, err
	}
	for _, path := range list[max(0, len(list)-2):] {
		if ids, err = unfinishedIn(path, ids); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func unfinishedIn(path string, ids []string) ([]string, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()

	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxFile)
	for lines.Scan() {
		var n line
		if json.Unmarshal(lines.Bytes(), &n) != nil || n.Lasting != "" {
			continue // a part of a line, or an action that may continue
		}
		if n.Phase == intent {
			ids = append(ids, n.ID)
		} else {
			ids = slices.DeleteFunc(ids, func(id string) bool { return id == n.ID })
		}
	}
	return ids, lines.Err()
}
