package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rule is the number of a rule in docs/contract.md.
type rule struct{ section, number int }

func (r rule) String() string { return fmt.Sprintf("C%d.%d", r.section, r.number) }

func (r rule) compare(o rule) int {
	return cmp.Or(cmp.Compare(r.section, o.section), cmp.Compare(r.number, o.number))
}

// clause is a rule's entry in the contract.
type clause struct {
	built bool
	text  string // the beginning of the text
}

const contractFile = "docs/contract.md"

// The conformance suite proves the sections about the domain, for every engine. Its tests are
// exported functions, so they are in files without the suffix _test.go.
const suite = "enginetest"

// bySuite reports whether the test of a rule must be in the suite or in the root package. The tests
// of all other rules may be anywhere.
func bySuite(r rule) bool {
	_, elsewhere := provenElsewhere[r]
	return (r.section <= 10 || r.section == 13) && !elsewhere
}

// provenElsewhere has rules of the domain's sections that a suite for every engine can't check,
// because they are about the storage of one engine, the worker or the server.
var provenElsewhere = map[rule]string{
	{1, 2}:   "tokens are the server's",
	{1, 5}:   "needs a cluster",
	{4, 9}:   "durability is each store's own",
	{4, 75}:  "the server's look at its queues",
	{4, 76}:  "the fault must be planted in the store",
	{4, 77}:  "the fault must be planted in the store",
	{4, 78}:  "the fault must be planted in the store",
	{4, 79}:  "the fault must be planted in the store",
	{4, 80}:  "the fault must be planted in the store",
	{4, 81}:  "the fault must be planted in the store",
	{4, 82}:  "SQLite only",
	{4, 98}:  "handlers are the worker's",
	{4, 95}:  "slots are the worker's",
	{5, 3}:   "needs a cluster",
	{5, 15}:  "Redis only: whose timer it is shows on the server",
	{5, 17}:  "what a process sends shows on the server",
	{8, 7}:   "handlers are the worker's",
	{9, 2}:   "needs processes that are killed",
	{9, 3}:   "SQLite only, under strace",
	{9, 4}:   "SQLite only, with failing syncs",
	{9, 5}:   "Redis only, in real processes",
	{9, 6}:   "Redis only: what is sent",
	{9, 7}:   "Redis only: needs a replica",
	{9, 8}:   "Redis only: needs a replica that is silent",
	{9, 9}:   "Redis only: what opening says of the server",
	{9, 10}:  "Redis only: the reset must be made in the store",
	{9, 11}:  "needs a full disk",
	{9, 12}:  "needs a full disk",
	{10, 2}:  "SQLite only",
	{10, 15}: "Redis only: what each shard keeps shows on the server",
	{13, 3}:  "tokens are the server's",
	{13, 10}: "Redis only: needs a replica that is silent",
	{13, 11}: "an engine that runs inside the test is always reached",
	{13, 15}: "the damage must be planted in the store",
	{13, 16}: "what the log keeps and the answer does not is the server's",
}

var (
	numberMark = regexp.MustCompile(`\*\*\[C(\d+)\.(\d+)\]\*\*( \*\(not built yet\)\*)?`)
	anyMark    = regexp.MustCompile(`\[C\d|\(not built yet\)`)
	named      = regexp.MustCompile(`\bC(\d{1,2})\.(\d{1,3})\b`)
	namedIdent = regexp.MustCompile(`(?:^|[^A-Z])C(\d{1,2})_(\d{1,3})(?:[^0-9]|$)`)
)

// parseContract reads the rules out of the page.
func parseContract(text string) (rules map[rule]clause, faults []string) {
	rules = map[rule]clause{}
	section := 0
	for i, line := range strings.Split(text, "\n") {
		if head, ok := strings.CutPrefix(line, "## "); ok {
			number, _, _ := strings.Cut(head, ".")
			section, _ = strconv.Atoi(number)
		}
		marks := numberMark.FindAllStringSubmatchIndex(line, -1)
		for n, m := range marks {
			r := ruleOf(line[m[2]:m[3]], line[m[4]:m[5]])
			if _, twice := rules[r]; twice {
				faults = append(faults, fmt.Sprintf("%s:%d: %s is given twice", contractFile, i+1, r))
			}
			if r.section != section {
				faults = append(faults, fmt.Sprintf("%s:%d: %s is in section %d", contractFile, i+1, r, section))
			}
			end := len(line)
			if n+1 < len(marks) {
				end = marks[n+1][0]
			}
			rules[r] = clause{built: m[6] < 0, text: beginning(line[m[1]:end])}
		}
		// The introduction explains the mark. From section 1 on, each mark must belong to a rule's
		// number.
		if section > 0 && anyMark.MatchString(numberMark.ReplaceAllString(line, "")) {
			faults = append(faults, fmt.Sprintf("%s:%d: a mark that is not of the form **[C1.2]** *(not built yet)*",
				contractFile, i+1))
		}
	}

	return rules, faults
}

func ruleOf(section, number string) rule {
	s, _ := strconv.Atoi(section) // the pattern matches only digits, so there is no error
	n, _ := strconv.Atoi(number)
	return rule{s, n}
}

// beginning returns the first words of a rule, which identify it.
func beginning(text string) string {
	text = strings.Trim(text, " |·")
	if short := []rune(text); len(short) > 80 {
		return string(short[:80]) + "…"
	}
	return text
}

// mentions lists the rules that a test file names: in a test's comment, in
// strings (names of subtests, tables) as C4.31, in Go names as C4_31. A word
// in passing outside any declaration is not a test.
func mentions(s source) map[rule]string {
	found := map[rule]string{}
	note := func(re *regexp.Regexp, text string, pos token.Pos) {
		if !strings.Contains(text, "C") {
			return // most names and strings contain no rule, and this test is faster than the pattern
		}
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			r := ruleOf(m[1], m[2])
			if _, ok := found[r]; !ok {
				found[r] = s.at(pos)
			}
		}
	}

	for _, d := range s.ast.Decls {
		from, to := d.Pos(), d.End()
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Doc != nil {
				from = d.Doc.Pos()
			}
		case *ast.GenDecl:
			if d.Tok == token.IMPORT {
				continue
			}
			if d.Doc != nil {
				from = d.Doc.Pos()
			}
		}
		for _, group := range s.ast.Comments {
			if group.Pos() >= from && group.End() <= to {
				note(named, group.Text(), group.Pos())
			}
		}
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					note(named, n.Value, n.Pos())
				}
			case *ast.Ident:
				note(namedIdent, n.Name, n.Pos())
			}
			return true
		})
	}

	return found
}

// testedRules returns the first place that names each rule: one in the suite or the root package,
// and one anywhere.
func testedRules(files []source) (inSuite, anywhere map[rule]string) {
	inSuite, anywhere = map[rule]string{}, map[rule]string{}
	for _, s := range files {
		ofSuite := under(s.dir(), suite) || under(s.dir(), ".", "contract") && s.isTest()
		if under(s.dir(), "internal/archtest") || !ofSuite && !s.isTest() {
			continue
		}
		for r, at := range mentions(s) {
			anywhere[r] = at
			if ofSuite {
				inSuite[r] = at
			}
		}
	}
	return inSuite, anywhere
}

// untested lists the built rules that no test names at the place where a test must.
func untested(rules map[rule]clause, files []source) []rule {
	inSuite, anywhere := testedRules(files)
	var missing []rule
	for r, c := range rules {
		where := anywhere
		if bySuite(r) {
			where = inSuite
		}
		if _, ok := where[r]; c.built && !ok {
			missing = append(missing, r)
		}
	}
	slices.SortFunc(missing, rule.compare)
	return missing
}

// unknown lists the places in tests that name a rule that the contract does not have.
func unknown(rules map[rule]clause, files []source) []string {
	_, anywhere := testedRules(files)
	var faults []string
	for r, at := range anywhere {
		if _, ok := rules[r]; !ok {
			faults = append(faults, fmt.Sprintf("%s names %s, which is not a rule of %s", at, r, contractFile))
		}
	}
	return faults
}

func TestContractIsNumbered(t *testing.T) {
	t.Parallel()
	rules, faults := parseContract(read(t, contractFile))
	report(t, faults)
	if len(rules) == 0 {
		t.Fatalf("no rule in %s", contractFile)
	}
	for r := range provenElsewhere {
		if c, ok := rules[r]; !ok || !c.built {
			t.Errorf("the list of rules that are proven elsewhere names %s, which is not a rule, or not built yet", r)
		}
	}
	built := 0
	for c := range maps.Values(rules) {
		if c.built {
			built++
		}
	}
	t.Logf("%d rules, %d of them built", len(rules), built)
}

func TestEveryRuleHasATest(t *testing.T) {
	t.Parallel()
	files := tree(t)
	if !hasPackage(files, suite) {
		t.Skipf("no package %s in the tree", suite)
	}

	rules, _ := parseContract(read(t, contractFile))
	missing := untested(rules, files)
	if len(missing) == 0 {
		return
	}

	var list strings.Builder
	for _, r := range missing {
		where := "any test"
		if bySuite(r) {
			where = suite
		}
		fmt.Fprintf(&list, "\n  %-7s (%s) %s", r, where, rules[r].text)
	}
	t.Errorf("%d rules of %s have no test that names them:%s", len(missing), contractFile, list.String())
}

func TestTestsNameRulesThatExist(t *testing.T) {
	t.Parallel()
	rules, _ := parseContract(read(t, contractFile))
	report(t, unknown(rules, tree(t)))
}
