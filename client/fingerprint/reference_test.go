package fingerprint_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onceward/onceward/client/fingerprint"
)

// The reference reads contract section 7 a second time, by other means and with no thought of speed: regular
// expressions, math/big, encoding/json for the values and jsontext for what is valid. Property and fuzz tests hold the
// package against it byte for byte.

// referenceCanonical is what Canonical has to answer.
func referenceCanonical(contentType string, body []byte, pointers []string) (fingerprint.Kind, []byte) {
	if len(body) == 0 {
		return fingerprint.KindNone, nil
	}
	mediaType, _, _ := strings.Cut(contentType, ";")
	mediaType = asciiLower(strings.Trim(mediaType, " \t"))
	switch {
	case regexp.MustCompile("^([!#-'*+.^_`|~0-9a-z/-]*\\+json|application/json)$").MatchString(mediaType):
		if value, ok := referenceJSON(body); ok {
			value = referenceIgnore(value, pointers)
			return fingerprint.KindJSON, referenceAppendJSON(nil, value)
		}
	case mediaType == "application/x-www-form-urlencoded":
		return fingerprint.KindForm, []byte(referenceForm(string(body)))
	case mediaType == "multipart/form-data":
		if boundary, ok := referenceBoundary(contentType); ok {
			if parts, ok := referenceParts(string(body), boundary); ok {
				return fingerprint.KindMultipart, referenceAppendParts(parts)
			}
		}
	}
	return fingerprint.KindRaw, body
}

func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r - 'A' + 'a'
		}
		return r
	}, s)
}

// exponentDigits finds the digits of an exponent after its leading zeros.
var exponentDigits = regexp.MustCompile(`[eE][+-]?0*([0-9]*)$`)

// referenceJSON reads a JSON text into the values of encoding/json, numbers as json.Number.
func referenceJSON(body []byte) (any, bool) {
	// jsontext refuses bad UTF-8, lone surrogates, names that occur twice and text after the value.
	if !jsontext.Value(body).IsValid() {
		return nil, false
	}
	tokens := jsontext.NewDecoder(bytes.NewReader(body))
	for {
		token, err := tokens.ReadToken()
		if err != nil {
			break // the end
		}
		if tokens.StackDepth() > 128 {
			return nil, false
		}
		if token.Kind() == '0' {
			if m := exponentDigits.FindStringSubmatch(token.String()); m != nil && len(m[1]) > 15 {
				return nil, false
			}
		}
	}
	values := json.NewDecoder(bytes.NewReader(body))
	values.UseNumber()
	var value any
	if err := values.Decode(&value); err != nil {
		panic(fmt.Sprintf("jsontext takes %q for valid and encoding/json does not: %v", body, err))
	}
	return value, true
}

// referenceIgnore removes what the pointers point at, one pointer after the other.
func referenceIgnore(value any, pointers []string) any {
	for _, p := range pointers {
		if p == "" || !regexp.MustCompile(`^(/([^~/]|~[01])*)*$`).MatchString(p) || !isUTF8(p) {
			continue
		}
		tokens := strings.Split(p, "/")[1:]
		at := value
		for i, token := range tokens {
			token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
			switch container := at.(type) {
			case map[string]any:
				if i == len(tokens)-1 {
					delete(container, token)
				}
				at = container[token]
			case []any:
				at = nil
				for index, element := range container {
					if fmt.Sprint(index) == token {
						at = element
					}
				}
			default:
				at = nil
			}
		}
	}
	return value
}

func isUTF8(s string) bool { return s == string([]rune(s)) }

func referenceAppendJSON(dst []byte, value any) []byte {
	switch v := value.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int {
			return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		})
		for i, name := range names {
			dst = append(dst, "{,"[min(i, 1)])
			dst = append(referenceAppendString(dst, name), ':')
			dst = referenceAppendJSON(dst, v[name])
		}
		if len(names) == 0 {
			dst = append(dst, '{')
		}
		return append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for i, element := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = referenceAppendJSON(dst, element)
		}
		return append(dst, ']')
	case string:
		return referenceAppendString(dst, v)
	case json.Number:
		return append(dst, referenceNumber(string(v)).String()...)
	default:
		return fmt.Appendf(dst, "%v", map[any]string{nil: "null", true: "true", false: "false"}[v])
	}
}

func referenceAppendString(dst []byte, s string) []byte {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`}
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case short[r] != "":
			dst = append(dst, short[r]...)
		case r < 0x20:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = append(dst, string(r)...)
		}
	}
	return append(dst, '"')
}

// decimal is the value mantissa × 10^exponent, the mantissa not divisible by ten unless it is zero.
type decimal struct{ mantissa, exponent *big.Int }

func (d decimal) String() string {
	if d.exponent.Sign() == 0 {
		return d.mantissa.String()
	}
	return d.mantissa.String() + "e" + d.exponent.String()
}

var numberParts = regexp.MustCompile(`^(-?(?:0|[1-9][0-9]*))(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$`)

// referenceNumber is the value of a JSON number. It panics where text is none.
func referenceNumber(text string) decimal {
	parts := numberParts.FindStringSubmatch(text)
	mantissa, _ := new(big.Int).SetString(parts[1]+parts[2], 10)
	exponent := new(big.Int)
	if parts[3] != "" {
		exponent.SetString(parts[3], 10)
	}
	exponent.Sub(exponent, big.NewInt(int64(len(parts[2]))))
	if mantissa.Sign() == 0 {
		return decimal{mantissa, new(big.Int)}
	}
	for ten := big.NewInt(10); ; exponent.Add(exponent, big.NewInt(1)) {
		quotient, remainder := new(big.Int).QuoRem(mantissa, ten, new(big.Int))
		if remainder.Sign() != 0 {
			return decimal{mantissa, exponent}
		}
		mantissa = quotient
	}
}
