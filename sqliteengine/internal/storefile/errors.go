package storefile

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/dulymq/duly"
)

// NotWritable returns the error for a file in a folder that is not writable.
func NotWritable(path string, err error) error {
	return &duly.Error{Code: duly.CodeUnavailable, Cause: err,
		Message: fmt.Sprintf("the folder %s is not writable (%s); give a path in a writable folder",
			filepath.Dir(path), Reason(err))}
}

// Reason returns the reason of an error without the path that os adds.
func Reason(err error) string {
	if e, ok := err.(*os.PathError); ok {
		return e.Err.Error()
	}
	return err.Error()
}
