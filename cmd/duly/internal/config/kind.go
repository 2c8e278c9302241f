package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/server/webhook/guard"
)

// kind is what the value of a setting may be. A value comes as the file has it,
// or as text from the environment and the flags.
type kind struct {
	name string // as people read it
	// read makes the field's value. Where it can't, it says why, behind the
	// setting's name.
	read func(s *Setting, raw any) (value any, problem string)
	// show is the value as one would write it.
	show func(value any) string
}

var (
	text     = kind{"text", readText, showText}
	engine   = kind{"URL", readText, showText}
	address  = kind{"host:port", readAddress, showText}
	choice   = kind{"one of", readChoice, showText}
	level    = kind{"one of", readLevel, func(v any) string { return strings.ToLower(v.(slog.Level).String()) }}
	span     = kind{"duration", readSpan, func(v any) string { return duly.FormatDuration(v.(time.Duration)) }}
	count    = kind{"number", readCount, func(v any) string { return strconv.Itoa(v.(int)) }}
	size     = kind{"size", readSize, func(v any) string { return formatSize(v.(int64)) }}
	networks = kind{"networks", readProxies, showNetworks}
	ranges   = kind{"ranges", readNetworks, showNetworks}
	ports    = kind{"ports", readPorts, func(v any) string { return v.(guard.Ports).String() }}
	proxy    = kind{"URL", readProxy, showText}
	poolList = kind{"table of NAME = URL", readPools, showPools}
)

func showText(v any) string { return open.Redact(v.(string)) }

// shown is a value from outside as an error may show it.
func shown(raw any) string {
	const most = 60
	value, isText := raw.(string)
	if !isText {
		b, _ := json.Marshal(raw)
		value = string(b)
	}
	value = open.Redact(value)
	if len(value) > most {
		value = value[:most] + "…"
	}
	if isText {
		return strconv.Quote(value)
	}
	return value
}

func readText(s *Setting, raw any) (any, string) {
	value, ok := raw.(string)
	if !ok {
		return "", fmt.Sprintf("is %s, must be text in quotes", shown(raw))
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' }) {
		return "", "has a control character"
	}
	return value, ""
}

func readAddress(s *Setting, raw any) (any, string) {
	value, problem := readText(s, raw)
	if problem != "" {
		return value, problem
	}
	_, port, err := net.SplitHostPort(value.(string))
	n, bad := strconv.Atoi(port)
	switch {
	case err != nil:
		return "", fmt.Sprintf("is %s, must be host:port", shown(raw))
	case bad != nil || n < 0 || n > 65535:
		return "", fmt.Sprintf("is %s, its port must be between 0 and 65535", shown(raw))
	}
	return value, ""
}

func readChoice(s *Setting, raw any) (any, string) {
	for _, one := range s.oneOf {
		if raw == one {
			return one, ""
		}
	}
	return "", fmt.Sprintf("is %s, must be %s", shown(raw), either(s.oneOf))
}

// either is a list as people say it.
func either(of []string) string {
	last := len(of) - 1
	return strings.Join(of[:last], ", ") + " or " + of[last]
}

func readLevel(s *Setting, raw any) (any, string) {
	var l slog.Level
	value, ok := raw.(string)
	if !ok || l.UnmarshalText([]byte(value)) != nil {
		return l, fmt.Sprintf("is %s, must be %s", shown(raw), either(s.oneOf))
	}
	return l, ""
}

func readSpan(s *Setting, raw any) (any, string) {
	value, ok := raw.(string)
	d, err := duly.ParseDuration(value)
	switch {
	case !ok || err != nil:
		return d, fmt.Sprintf("is %s, must be a duration; write it like \"250ms\", \"90s\" or \"1h30m\"", shown(raw))
	case d < time.Duration(s.least) || d > time.Duration(s.most):
		return d, fmt.Sprintf("is %s, must be between %s and %s", shown(raw), duly.FormatDuration(time.Duration(s.least)), duly.FormatDuration(time.Duration(s.most)))
	case s.step > 0 && d%time.Duration(s.step) != 0:
		return d, fmt.Sprintf("is %s, must be whole seconds", shown(raw))
	}
	return d, ""
}

// units of sizes, the largest first.
var units = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

func readCount(s *Setting, raw any) (any, string) {
	n, ok := raw.(int64)
	if value, isText := raw.(string); isText {
		var err error
		n, err = strconv.ParseInt(value, 10, 64)
		ok = err == nil
	}
	if !ok || n < s.least || n > s.most {
		return 0, fmt.Sprintf("is %s, must be a number between %d and %d", shown(raw), s.least, s.most)
	}
	return int(n), ""
}

func readSize(s *Setting, raw any) (any, string) {
	n, ok := raw.(int64)
	if value, isText := raw.(string); isText {
		n, ok = parseSize(value)
	}
	switch {
	case !ok:
		return n, fmt.Sprintf("is %s, must be a number of bytes, or one with its unit like \"16MiB\"", shown(raw))
	case n < s.least || n > s.most:
		return n, fmt.Sprintf("is %s, must be %s", shown(raw), s.bounds())
	}
	return n, ""
}

func (s *Setting) bounds() string {
	if s.most >= 1<<62 {
		return "at least " + formatSize(s.least)
	}
	return fmt.Sprintf("between %s and %s", formatSize(s.least), formatSize(s.most))
}

func parseSize(value string) (int64, bool) {
	times := int64(1)
	for _, u := range units {
		if number, found := strings.CutSuffix(value, u.name); found {
			value, times = strings.TrimSpace(number), u.bytes
		}
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/times {
		return 0, false
	}
	return n * times, true
}

func formatSize(n int64) string {
	for _, u := range units {
		if n > 0 && n%u.bytes == 0 {
			return fmt.Sprintf("%d%s", n/u.bytes, u.name)
		}
	}
	return strconv.FormatInt(n, 10)
}

// readNetworks takes a list, or text with commas.
func readNetworks(s *Setting, raw any) (any, string) {
	list, ok := raw.([]any)
	if value, isText := raw.(string); isText {
		ok = true
		for one := range strings.SplitSeq(value, ",") {
			if one = strings.TrimSpace(one); one != "" {
				list = append(list, one)
			}
		}
	}
	if !ok {
		return []netip.Prefix(nil), fmt.Sprintf("is %s, must be a list like [\"10.0.0.0/24\"]", shown(raw))
	}
	var found []netip.Prefix
	for _, one := range list {
		value, _ := one.(string)
		network, err := readNetwork(value)
		if err != nil {
			return found, fmt.Sprintf("is %s, must be an address or a network like 10.0.0.0/24", shown(one))
		}
		found = append(found, network)
	}
	return found, ""
}

// readProxies takes networks of proxies.
func readProxies(s *Setting, raw any) (any, string) {
	found, problem := readNetworks(s, raw)
	if problem != "" {
		return found, problem
	}
	for _, network := range found.([]netip.Prefix) {
		if network.Bits() == 0 {
			return found, fmt.Sprintf("is %s, which holds every address: any client could choose the address that it is counted under; name the network of your proxies", shown(network.String()))
		}
	}
	return found, ""
}

// readPorts takes a list such as "443, 1024-65535".
func readPorts(_ *Setting, raw any) (any, string) {
	value, _ := raw.(string)
	found, err := guard.ParsePorts(value)
	if err != nil {
		return guard.Ports(nil), fmt.Sprintf("is %s, must be ports and ranges of them like \"443, 1024-65535\"", shown(raw))
	}
	return found, ""
}

// readProxy takes the URL of a proxy.
func readProxy(s *Setting, raw any) (any, string) {
	value, problem := readText(s, raw)
	if problem != "" {
		return value, problem
	}
	u, err := url.Parse(value.(string))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", fmt.Sprintf("is %s, must be a URL like http://proxy.example:3128", shown(raw))
	}
	return value, ""
}

// readNetwork reads a network or an address. One of IPv4 that is written as IPv6, such
// as ::ffff:10.0.0.0/104, is of IPv4, because the addresses of peers are.
func readNetwork(text string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(text)
	if a, notOne := netip.ParseAddr(text); notOne == nil {
		network, err = netip.PrefixFrom(a, a.BitLen()), nil
	}
	if a := network.Addr(); err == nil && a.Is4In6() && network.Bits() >= 96 {
		network = netip.PrefixFrom(a.Unmap(), network.Bits()-96)
	}
	return network.Masked(), err
}

func showNetworks(v any) string {
	var texts []string
	for _, n := range v.([]netip.Prefix) {
		texts = append(texts, n.String())
	}
	return strings.Join(texts, ",")
}
