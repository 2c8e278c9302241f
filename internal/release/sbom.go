package release

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
)

// sbom writes the modules of a platform's binary in the CycloneDX format.
func (b *builder) sbom(ctx context.Context, t Target, binary string) error {
	// A time or a random serial number would make two builds differ.
	_, err := b.run(ctx, b.Root, t.env(), filepath.Join(b.work, "tools", "cyclonedx-gomod"), "bin",
		"-json", "-std", "-notimestamp", "-serial", b.serial(t), "-version", b.Version,
		"-output", b.path("%s.cdx.json", t), binary)
	return err
}

// serial returns the serial number of an SBOM: a UUID that the version, the commit
// and the platform decide. It has the form of RFC 9562, version 8.
func (b *builder) serial(t Target) string {
	u := sha256.Sum256(fmt.Append(nil, b.stamp.Version, " ", b.stamp.Commit, " ", t))
	// These bits name the version and the variant of the UUID.
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:16])
}
