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

// layer is what one place sets, by key, and where each key stands there.
type layer struct {
	*koanf.Koanf
	origin func(key string) Origin
}

// dot separates tables and names in a key.
const dot = "."

// ofMap makes a layer of keys and values.
func ofMap(values map[string]any, origin func(key string) Origin) layer {
	ko := koanf.New(dot)
	_ = ko.Load(confmap.Provider(values, dot), nil) // a map can be read
	return layer{ko, origin}
}

// ofEnvironment is the variables that are set and not empty.
func ofEnvironment(getenv func(string) string) layer {
	values := map[string]any{}
	for _, s := range Table {
		if value := getenv(s.Variable()); value != "" {
			values[s.Key] = value
		}
	}
	return ofMap(values, func(key string) Origin { return Origin{Place: named(key).Variable()} })
}

// ofFlags is the flags that were given; see [Flags].
func ofFlags(flags *pflag.FlagSet) layer {
	values := map[string]any{}
	for _, s := range Table {
		if f := flags.Lookup(s.Flag); f != nil && f.Changed {
			values[s.Key] = f.Value.String()
		}
	}
	return ofMap(values, func(key string) Origin { return Origin{Place: "--" + named(key).Flag} })
}

// maxFile bounds a file, in bytes.
const maxFile = 1 << 20

// ofFile is a file in TOML.
func ofFile(path string, faults *Faults) layer {
	text, err := readFile(path)
	if err != nil {
		faults.add(Origin{Place: path, file: true}, "", "can't be read: %v", err)
		return ofMap(nil, nil)
	}
	ko := koanf.New(dot)
	if err := ko.Load(given(text), toml.Parser()); err != nil {
		line, problem := notTOML(err)
		faults.add(Origin{Place: path, Line: line, file: true}, "", "%s", problem)
		return ofMap(nil, nil)
	}
	lines := linesOf(text)
	return layer{ko, func(key string) Origin {
		for line := 0; ; key, _ = cutLast(key) {
			if line = lines[key]; line > 0 || key == "" {
				return Origin{Place: path, Line: line, file: true}
			}
		}
	}}
}

// given hands koanf what was read.
type given []byte

// ReadBytes implements koanf.Provider.
func (g given) ReadBytes() ([]byte, error) { return g, nil }

// Read implements koanf.Provider.
func (g given) Read() (map[string]any, error) { return nil, errors.ErrUnsupported }

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return text, bare(err)
}

// bare is an error of a file without the path, which stands before it.
func bare(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// notTOML says where a text is not TOML, and why. What stands there is not
// repeated: it may be a secret.
func notTOML(err error) (line int, problem string) {
	var e *gotoml.DecodeError
	if errors.As(err, &e) {
		line, _ = e.Position()
	}
	return line, "is not TOML: " + strings.TrimPrefix(err.Error(), "toml: ")
}

// linesOf finds the line of every key and table.
func linesOf(text []byte) map[string]int {
	lines := map[string]int{}
	var p unstable.Parser
	p.Reset(text)
	var table []string
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = noteKey(&p, e, nil, lines)
		case unstable.KeyValue:
			noteValue(&p, e, table, lines)
		}
	}
	return lines
}

// noteKey notes a key's line, and returns the names that it has in all.
func noteKey(p *unstable.Parser, e *unstable.Node, table []string, lines map[string]int) []string {
	names, line := append([]string(nil), table...), 0
	for key := e.Key(); key.Next(); {
		names = append(names, string(key.Node().Data))
		if line == 0 {
			line = p.Shape(key.Node().Raw).Start.Line
		}
	}
	if full := strings.Join(names, dot); lines[full] == 0 {
		lines[full] = line
	}
	return names
}

// noteValue notes a key with a value, and what stands inside an inline table.
func noteValue(p *unstable.Parser, e *unstable.Node, table []string, lines map[string]int) {
	names := noteKey(p, e, table, lines)
	if e.Value().Kind != unstable.InlineTable {
		return
	}
	for inside := e.Value().Children(); inside.Next(); {
		noteValue(p, inside.Node(), names, lines)
	}
}
