package config

import (
	"regexp"
	"slices"
	"strings"
)

// ofCommands are the variables that are no settings of a server.
var ofCommands = []string{
	"DULY_URL", "DULY_ADMIN_URL", "DULY_TOKEN", "DULY_CA", "DULY_CLIENT_CERT", "DULY_CLIENT_KEY", "DULY_CONFIG", "DULY_LMSTFY_CONFIG",
}

// ofTests are read by the tests of this tree alone. They mean nothing here, but
// nobody has mistyped them.
var ofTests = []string{"DULY_LONG", "DULY_BACKLOG", "DULY_LEDGER", "DULY_SOAK", "DULY_REDIS_SERVER", "DULY_CLOCK", "DULY_PROCTEST_ROLE"}

// families begin the names of variables that are made for others: for what a
// worker runs, and for tests.
var families = []string{"DULY_JOB_", "DULY_MODEL_"}

// linked is a variable that Kubernetes sets for a service whose name is duly, or
// begins with that.
var linked = regexp.MustCompile(`^DULY_(\w+_)?(SERVICE_HOST=|SERVICE_PORT(_\w+)?=|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?=|PORT=\w+://)`)

// Strays are the variables of an environment that look like duly's and are
// none: each is a fault, for what it was to say is not heard. A variable that is
// empty is as one that is not set.
func Strays(environ []string) (strays Faults) {
	for _, one := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(one, "=")
		if !strings.HasPrefix(name, prefix) || value == "" || knownVariable(name) || linked.MatchString(one) {
			continue
		}
		problem := "is no variable of duly's, and nothing reads it; docs/configuration.md lists the settings"
		if near := nearestVariable(name); near != "" {
			problem = "is no variable of duly's, and nothing reads it; did you mean " + near + "?"
		}
		strays.add(Origin{Place: name}, "", "%s", problem)
	}
	return strays
}

func knownVariable(name string) bool {
	ofTable := func(s *Setting) bool { return s.Variable() == name }
	ofFamily := func(begin string) bool { return strings.HasPrefix(name, begin) }
	return slices.ContainsFunc(Table, ofTable) || slices.Contains(ofCommands, name) || slices.Contains(ofTests, name) || slices.ContainsFunc(families, ofFamily)
}

// nearestVariable is the variable that a mistyped one may mean, "" where none is
// near. Some are named as the flag is.
func nearestVariable(name string) string {
	own := strings.TrimPrefix(name, prefix)
	near := nearTo(own)
	for _, s := range Table {
		near.see(s.Variable(), min(distance(own, s.Key), distance(own, s.Flag)))
	}
	for _, variable := range ofCommands {
		near.see(variable, distance(own, strings.TrimPrefix(variable, prefix)))
	}
	return near.best
}
