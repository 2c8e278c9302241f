package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/dulymq/duly"
)

const (
	// Version is the version of the files.
	Version = 1
	// maxFile bounds a file that is read, in bytes: 1000 IDs, a step, a sample and the answers are below it.
	maxFile = 4 << 20
	suffix  = ".json"
)

// Store keeps records in a folder. Without a folder it keeps none.
type Store struct {
	Dir string
	// Write writes a file, as durable.WriteFile does.
	Write func(path, text string) error
}

func (s *Store) path(id string) string { return filepath.Join(s.Dir, id+suffix) }

// Save replaces the file of an operation.
func (s *Store) Save(id string, text []byte) error {
	if s.Dir == "" {
		return nil
	}
	// The first operation creates the folder.
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	return s.Write(s.path(id), string(text))
}

// Remove removes the file of an operation. A failure only delays it.
func (s *Store) Remove(id string) {
	if s.Dir != "" {
		_ = os.Remove(s.path(id))
	}
}

// Load reads all records. It calls failed for each file that cannot be read.
func (s *Store) Load(failed func(name string, err error)) (list []*Record, err error) {
	if s.Dir == "" {
		return nil, nil
	}
	found, err := os.ReadDir(s.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	for _, file := range found {
		name := file.Name()
		id, ok := strings.CutSuffix(name, suffix)
		if _, isID := duly.ParseNumber(id); !ok || !isID {
			// A process that was killed while it wrote has left its temporary file.
			if strings.HasPrefix(name, ".") && strings.Contains(name, suffix+"-") {
				_ = os.Remove(filepath.Join(s.Dir, name))
			}
			continue
		}
		r, err := s.Read(id)
		if err != nil {
			failed(name, err)
			continue
		}
		list = append(list, r)
	}
	return list, nil
}

// Read reads one record.
func (s *Store) Read(id string) (*Record, error) {
	f, err := os.Open(s.path(id))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}

	r := new(Record)
	switch err := json.Unmarshal(text, r); {
	case len(text) > maxFile:
		return nil, fmt.Errorf("it has more than %d bytes", maxFile)
	case err != nil:
		return nil, err
	case r.Version != Version:
		return nil, fmt.Errorf("it has the version %d, this server reads %d", r.Version, Version)
	case r.Operation.ID != id || r.Next < 0 || r.Next > len(r.Chosen):
		return nil, errors.New("it is damaged")
	}
	return r, nil
}
