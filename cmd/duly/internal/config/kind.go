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

// kind is the type of a setting's value. A raw value has its type from the file, or is a
// text from the environment or a flag.
type kind struct {
	name string // name of the kind for users
	// parse converts a raw value to the type of the field. The problem, if any, follows
	// the setting's name in an error.
	parse func(s *Setting, raw any) (value any, problem string)
	// format returns the value in the syntax of the file.
	format func(value any) string
}

var (
	text     = kind{"text", parseText, formatText}
	engine   = kind{"URL", parseText, formatText}
	address  = kind{"host:port", parseAddress, formatText}
	choice   = kind{"one of", parseChoice, formatText}
	level    = kind{"one of", parseLevel, func(v any) string { return strings.ToLower(v.(slog.Level).String()) }}
	duration = kind{"duration", parseDuration, func(v any) string { return duly.FormatDuration(v.(time.Duration)) }}
	count    = kind{"number", parseCount, func(v any) string { return strconv.Itoa(v.(int)) }}
	size     = kind{"size", parseSize, func(v any) string { return formatSize(v.(int64)) }}
	networks = kind{"networks", parseProxyNetworks, formatNetworks}
	ranges   = kind{"ranges", parseNetworks, formatNetworks}
	ports    = kind{"ports", parsePorts, func(v any) string { return v.(guard.Ports).String() }}
	proxy    = kind{"URL", parseProxy, formatText}
	poolList = kind{"table of NAME = URL", parsePools, formatPools}
)

func formatText(v any) string { return open.Redact(v.(string)) }

// quote returns a raw value for an error: short, and without the secrets of a URL.
func quote(raw any) string {
	const maxLen = 60
	value, isText := raw.(string)
	if !isText {
		b, _ := json.Marshal(raw)
		value = string(b)
	}

	// The text is redacted before it is cut, because a cut URL could not be recognized.
	value = open.Redact(value)
	if len(value) > maxLen {
		value = value[:maxLen] + "…"
	}
	if isText {
		return strconv.Quote(value)
	}
	return value
}

func parseText(_ *Setting, raw any) (any, string) {
	value, ok := raw.(string)
	if !ok {
		return "", fmt.Sprintf("is %s, must be text in quotes", quote(raw))
	}
	// A line end in a value could write a line of its own into the log.
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' }) {
		return "", "has a control character"
	}
	return value, ""
}

func parseAddress(s *Setting, raw any) (any, string) {
	value, problem := parseText(s, raw)
	if problem != "" {
		return value, problem
	}
	_, port, err := net.SplitHostPort(value.(string))
	n, bad := strconv.Atoi(port)
	switch {
	case err != nil:
		return "", fmt.Sprintf("is %s, must be host:port", quote(raw))
	case bad != nil || n < 0 || n > 65535:
		return "", fmt.Sprintf("is %s, its port must be between 0 and 65535", quote(raw))
	}
	return value, ""
}

func parseChoice(s *Setting, raw any) (any, string) {
	for _, option := range s.oneOf {
		if raw == option {
			return option, ""
		}
	}
	return "", fmt.Sprintf("is %s, must be %s", quote(raw), orList(s.oneOf))
}

// orList returns "a, b or c".
func orList(items []string) string {
	last := len(items) - 1
	return strings.Join(items[:last], ", ") + " or " + items[last]
}

func parseLevel(s *Setting, raw any) (any, string) {
	var l slog.Level
	value, ok := raw.(string)
	if !ok || l.UnmarshalText([]byte(value)) != nil {
		return l, fmt.Sprintf("is %s, must be %s", quote(raw), orList(s.oneOf))
	}
	return l, ""
}

func parseDuration(s *Setting, raw any) (any, string) {
	value, ok := raw.(string)
	d, err := duly.ParseDuration(value)
	lowest, highest := time.Duration(s.min), time.Duration(s.max)
	switch {
	case !ok || err != nil:
		return d, fmt.Sprintf("is %s, must be a duration; write it like \"250ms\", \"90s\" or \"1h30m\"", quote(raw))
	case d < lowest || d > highest:
		return d, fmt.Sprintf("is %s, must be between %s and %s",
			quote(raw), duly.FormatDuration(lowest), duly.FormatDuration(highest))
	case s.step > 0 && d%time.Duration(s.step) != 0:
		return d, fmt.Sprintf("is %s, must be whole seconds", quote(raw))
	}
	return d, ""
}

func parseCount(s *Setting, raw any) (any, string) {
	// A file has a number. Variables and flags have a string.
	n, ok := raw.(int64)
	if value, isText := raw.(string); isText {
		var err error
		n, err = strconv.ParseInt(value, 10, 64)
		ok = err == nil
	}
	if !ok || n < s.min || n > s.max {
		return 0, fmt.Sprintf("is %s, must be a number between %d and %d", quote(raw), s.min, s.max)
	}
	return int(n), ""
}

// units are the units of sizes, the largest first.
var units = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

func parseSize(s *Setting, raw any) (any, string) {
	n, ok := raw.(int64)
	if value, isText := raw.(string); isText {
		n, ok = ParseSize(value)
	}
	switch {
	case !ok:
		return n, fmt.Sprintf("is %s, must be a number of bytes, or one with its unit like \"16MiB\"", quote(raw))
	case n < s.min || n > s.max:
		return n, fmt.Sprintf("is %s, must be %s", quote(raw), s.sizeBounds())
	}
	return n, ""
}

// sizeBounds returns the bounds of a size for an error.
func (s *Setting) sizeBounds() string {
	// This limit is so large that no user reaches it, so the error does not show it.
	if s.max >= 1<<62 {
		return "at least " + formatSize(s.min)
	}
	return fmt.Sprintf("between %s and %s", formatSize(s.min), formatSize(s.max))
}

// ParseSize parses a number of bytes with an optional unit.
func ParseSize(text string) (bytes int64, ok bool) {
	unit := int64(1)
	for _, u := range units {
		if number, found := strings.CutSuffix(text, u.name); found {
			text, unit = strings.TrimSpace(number), u.bytes
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	// The bound prevents an overflow of the product.
	if err != nil || n < 0 || n > (1<<62)/unit {
		return 0, false
	}
	return n * unit, true
}

func formatSize(n int64) string {
	for _, u := range units {
		// The largest unit that divides the number comes first.
		if n > 0 && n%u.bytes == 0 {
			return fmt.Sprintf("%d%s", n/u.bytes, u.name)
		}
	}
	return strconv.FormatInt(n, 10)
}

// parseNetworks accepts a list, or a string with commas.
func parseNetworks(_ *Setting, raw any) (any, string) {
	list, ok := raw.([]any)
	if value, isText := raw.(string); isText {
		ok = true
		for item := range strings.SplitSeq(value, ",") {
			if item = strings.TrimSpace(item); item != "" {
				list = append(list, item)
			}
		}
	}
	if !ok {
		return []netip.Prefix(nil), fmt.Sprintf("is %s, must be a list like [\"10.0.0.0/24\"]", quote(raw))
	}

	var result []netip.Prefix
	for _, item := range list {
		value, _ := item.(string)
		network, err := readNetwork(value)
		if err != nil {
			return result, fmt.Sprintf("is %s, must be an address or a network like 10.0.0.0/24", quote(item))
		}
		result = append(result, network)
	}
	return result, ""
}

// parseProxyNetworks accepts the networks of trusted proxies.
func parseProxyNetworks(s *Setting, raw any) (any, string) {
	result, problem := parseNetworks(s, raw)
	if problem != "" {
		return result, problem
	}

	// If every peer were a proxy, any client could choose the address of its counters.
	for _, network := range result.([]netip.Prefix) {
		if network.Bits() == 0 {
			return result, fmt.Sprintf("is %s, which contains every address, so any client could fake its address; "+
				"name the network of your proxies", quote(network.String()))
		}
	}
	return result, ""
}

// parsePorts accepts a list such as "443, 1024-65535".
func parsePorts(_ *Setting, raw any) (any, string) {
	value, _ := raw.(string)
	result, err := guard.ParsePorts(value)
	if err != nil {
		return guard.Ports(nil), fmt.Sprintf("is %s, must be ports and ranges of them like \"443, 1024-65535\"",
			quote(raw))
	}
	return result, ""
}

// parseProxy accepts the URL of a proxy.
func parseProxy(s *Setting, raw any) (any, string) {
	value, problem := parseText(s, raw)
	if problem != "" {
		return value, problem
	}
	u, err := url.Parse(value.(string))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", fmt.Sprintf("is %s, must be a URL like http://proxy.example:3128", quote(raw))
	}
	return value, ""
}

// readNetwork reads a network or an address. It converts an IPv4 network in IPv6
// notation, such as ::ffff:10.0.0.0/104, to IPv4, because the addresses of peers are
// converted too.
func readNetwork(text string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(text)
	// A single address is a network with one member.
	if a, addrErr := netip.ParseAddr(text); addrErr == nil {
		network, err = netip.PrefixFrom(a, a.BitLen()), nil
	}

	// A shorter prefix contains addresses that are no IPv4, so it stays as it is.
	if a := network.Addr(); err == nil && a.Is4In6() && network.Bits() >= 96 {
		network = netip.PrefixFrom(a.Unmap(), network.Bits()-96)
	}

	// The bits after the prefix are cleared, so that equal networks compare equal.
	return network.Masked(), err
}

func formatNetworks(v any) string {
	var texts []string
	for _, n := range v.([]netip.Prefix) {
		texts = append(texts, n.String())
	}
	return strings.Join(texts, ",")
}
