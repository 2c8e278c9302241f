package release

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// The unit of the tree is for a binary that an administrator installs. A package
// must not write below /usr/local.
const (
	localBinary   = "/usr/local/bin/duly"
	packageBinary = "/usr/bin/duly"
)

// maintainerScripts are the scripts of the package, in packaging/deb.
var maintainerScripts = []string{"postinst", "prerm", "postrm"}

// deb builds the Debian package of a platform with nfpm. Its configuration
// packaging/deb/nfpm.yaml names the files below the folder that stage fills.
func (b *builder) deb(ctx context.Context, t Target, files []entry) error {
	dir := filepath.Join(b.work, t.String()+"_deb")
	if err := b.stage(dir, files); err != nil {
		return err
	}

	env := []string{
		"DULY_ARCH=" + t.Arch, "DULY_VERSION=" + b.Version,
		"SOURCE_DATE_EPOCH=" + strconv.FormatInt(b.date.Unix(), 10),
	}
	_, err := b.run(ctx, dir, env, filepath.Join(b.work, "tools", "nfpm"), "package", "--packager", "deb",
		"--config", filepath.Join(b.Root, "packaging", "deb", "nfpm.yaml"), "--target", b.path("%s.deb", t.Arch))
	return err
}

// stage writes what the package installs to a folder, each file with the time of
// the commit.
func (b *builder) stage(dir string, files []entry) error {
	for _, name := range append([]string{"duly.env"}, maintainerScripts...) {
		body, err := os.ReadFile(filepath.Join(b.Root, "packaging", "deb", name))
		if err != nil {
			return err
		}
		files = append(files, entry{name: name, mode: 0o644, body: body})
	}
	for _, f := range files {
		if f.name == "duly.service" {
			var err error
			if f.body, err = packageUnit(f.body); err != nil {
				return err
			}
		}
		path := filepath.Join(dir, filepath.FromSlash(f.name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.body, os.FileMode(f.mode)); err != nil {
			return err
		}
		// The package stores the times of the files, which must not depend on the build.
		if err := os.Chtimes(path, b.date, b.date); err != nil {
			return err
		}
	}
	return nil
}

// packageUnit returns the unit for the binary of the package.
func packageUnit(unit []byte) ([]byte, error) {
	// A different count means that the unit has changed, and this replacement may be wrong.
	if n := bytes.Count(unit, []byte(localBinary)); n != 1 {
		return nil, fmt.Errorf("duly.service contains %s %d times, want once", localBinary, n)
	}
	return bytes.Replace(unit, []byte(localBinary), []byte(packageBinary), 1), nil
}
