package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/knadh/koanf/parsers/toml/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	gotoml "github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/spf13/pflag"
)

// prefix begins the name of every variable.
const prefix = "DULY_"

// dot separates tables and names in a key.
const dot = "."

// maxFile is the maximum size of a file, in bytes.
const maxFile = 1 << 20

// layer holds the values of one source by key, and their origins.
type layer struct {
	*koanf.Koanf
	origin func(key string) Origin
}

// mapLayer returns a layer of keys and values.
func mapLayer(values map[string]any, origin func(key string) Origin) layer {
	ko := koanf.New(dot)
	_ = ko.Load(confmap.Provider(values, dot), nil) // loading a map does not fail
	return layer{ko, origin}
}

// envLayer returns the variables that are set and not empty.
func envLayer(getenv func(string) string) layer {
	values := map[string]any{}
	for _, s := range Table {
		// An empty variable counts as not set, as in other programs.
		if value := getenv(s.Variable()); value != "" {
			values[s.Key] = value
		}
	}
	return mapLayer(values, func(key string) Origin { return Origin{Source: settingOf(key).Variable()} })
}

// flagLayer returns the flags of [Flags] that were given.
func flagLayer(flags *pflag.FlagSet) layer {
	values := map[string]any{}
	for _, s := range Table {
		// A flag that was not given must not override the file with its default.
		if f := flags.Lookup(s.Flag); f != nil && f.Changed {
			values[s.Key] = f.Value.String()
		}
	}
	return mapLayer(values, func(key string) Origin { return Origin{Source: "--" + settingOf(key).Flag} })
}

// fileLayer returns the values of a TOML file.
func fileLayer(path string, errs *Errors) layer {
	text, err := readFile(path)
	if err != nil {
		// The origin has the path already, so the error leaves it out.
		errs.add(Origin{Source: path, file: true}, "", "cannot be read: %v", err)
		return mapLayer(nil, nil)
	}

	ko := koanf.New(dot)
	if err := ko.Load(rawBytes(text), toml.Parser()); err != nil {
		line, problem := tomlError(err)
		errs.add(Origin{Source: path, Line: line, file: true}, "", "%s", problem)
		return mapLayer(nil, nil)
	}

	// A key without a separate line, such as one in an array, has the line of its table.
	lines := keyLines(text)
	return layer{ko, func(key string) Origin {
		for line := 0; ; key, _ = cutLast(key) {
			if line = lines[key]; line > 0 || key == "" {
				return Origin{Source: path, Line: line, file: true}
			}
		}
	}}
}

// rawBytes is a koanf.Provider of a file that has been read.
type rawBytes []byte

// ReadBytes implements koanf.Provider.
func (b rawBytes) ReadBytes() ([]byte, error) { return b, nil }

// Read implements koanf.Provider.
func (b rawBytes) Read() (map[string]any, error) { return nil, errors.ErrUnsupported }

// readFile reads a file of at most maxFile bytes. Its errors do not contain the path.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer f.Close()

	// A wrong path, such as a device, could fill the memory.
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return text, withoutPath(err)
}

// withoutPath returns the cause of a file error, without the path.
func withoutPath(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// tomlError returns the line and the problem of a parser's error. The problem does not
// repeat the text of the line, which may be a secret.
func tomlError(err error) (line int, problem string) {
	var e *gotoml.DecodeError
	if errors.As(err, &e) {
		line, _ = e.Position()
	}
	return line, "is not TOML: " + strings.TrimPrefix(err.Error(), "toml: ")
}

// keyLines returns the line of every key and table.
func keyLines(text []byte) map[string]int {
	lines := map[string]int{}
	var p unstable.Parser
	p.Reset(text)
	var table []string
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = addKeyLine(&p, e, nil, lines)
		case unstable.KeyValue:
			addValueLines(&p, e, table, lines)
		}
	}
	return lines
}

// addKeyLine stores the line of a key in a table. It returns the names in the full key.
func addKeyLine(p *unstable.Parser, e *unstable.Node, table []string, lines map[string]int) []string {
	names, line := append([]string(nil), table...), 0
	for key := e.Key(); key.Next(); {
		names = append(names, string(key.Node().Data))
		// A dotted key begins at its first name.
		if line == 0 {
			line = p.Shape(key.Node().Raw).Start.Line
		}
	}
	// The first line counts: a table may be named again for an inner one.
	if full := strings.Join(names, dot); lines[full] == 0 {
		lines[full] = line
	}
	return names
}

// addValueLines stores the line of a key with a value, and those inside an inline table.
func addValueLines(p *unstable.Parser, e *unstable.Node, table []string, lines map[string]int) {
	names := addKeyLine(p, e, table, lines)
	if e.Value().Kind != unstable.InlineTable {
		return
	}
	for children := e.Value().Children(); children.Next(); {
		addValueLines(p, children.Node(), names, lines)
	}
}
