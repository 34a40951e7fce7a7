package fingerprint

import "strings"

// maxBoundaryBytes is the longest boundary that RFC 2046 section 5.1.1 allows.
const maxBoundaryBytes = 70

// kindOf tells from the content type what a body of that many bytes is to be read as, and returns the parameters: the
// text after the first semicolon. Whether the body really is of that kind is for its parser to say.
func kindOf(contentType string, bodyBytes int) (kind Kind, params string) {
	if bodyBytes == 0 {
		return KindNone, ""
	}
	mediaType, params, _ := strings.Cut(contentType, ";")
	mediaType = strings.Trim(mediaType, " \t")
	switch {
	case equalFoldASCII(mediaType, "application/json"), hasJSONSuffix(mediaType):
		return KindJSON, params
	case equalFoldASCII(mediaType, "application/x-www-form-urlencoded"):
		return KindForm, params
	case equalFoldASCII(mediaType, "multipart/form-data"):
		return KindMultipart, params
	default:
		return KindRaw, params
	}
}

// hasJSONSuffix reports whether a media type ends in +json (RFC 6839). Several media types in a row, as a proxy makes
// them of a repeated header ("text/plain, a/b+json"), are none: what such a body means is anybody's guess.
func hasJSONSuffix(mediaType string) bool {
	const suffix = "+json"
	cut := len(mediaType) - len(suffix)
	if cut < 0 || !equalFoldASCII(mediaType[cut:], suffix) {
		return false
	}
	for i := range cut {
		if c := mediaType[i]; c != '/' && !isTokenByte(c) {
			return false
		}
	}
	return true
}

// boundaryOf finds the boundary among the parameters of multipart/form-data. The grammar is RFC 9110 section 5.6.6 to
// the letter, and narrower where readers are known to part ways: what one of them might take for another boundary, or
// for none, is refused.
//
//   - A quoted string is taken for the boundary only, and without a backslash: `x="; boundary=y"` hides a boundary from
//     one reader and shows it to another.
//   - A name with an asterisk is RFC 2231, by which `boundary*0=y` is a boundary to some.
//   - The boundary is one of RFC 2046: 1 to 70 of its characters, and no blank at either end, since some trim it.
func boundaryOf(params string) (boundary string, ok bool) {
	for rest := strings.TrimLeft(params, " \t"); rest != ""; rest = strings.TrimLeft(rest, " \t") {
		if rest[0] == ';' {
			rest = rest[1:]
			continue
		}
		var name, value string
		name, value, rest, ok = cutParameter(rest)
		if !ok {
			return "", false
		}
		if equalFoldASCII(name, "boundary") {
			if boundary != "" || !isBoundary(value) {
				return "", false
			}
			boundary = value
		}
	}
	return boundary, boundary != ""
}

// cutParameter cuts the parameter with which text starts, up to the next semicolon or the end.
func cutParameter(text string) (name, value, rest string, ok bool) {
	name, text = cutToken(text)
	if name == "" || strings.Contains(name, "*") || text == "" || text[0] != '=' {
		return "", "", "", false
	}
	text = text[1:]
	if strings.HasPrefix(text, `"`) {
		if !equalFoldASCII(name, "boundary") {
			return "", "", "", false
		}
		// A backslash would make the next quote a part of the value; isBoundary refuses it, wherever it stands.
		value, text, ok = strings.Cut(text[1:], `"`)
	} else {
		value, text = cutToken(text)
		ok = value != ""
	}
	rest = strings.TrimLeft(text, " \t")
	if rest != "" && rest[0] != ';' {
		return "", "", "", false
	}
	return name, value, rest, ok
}

func cutToken(text string) (token, rest string) {
	n := 0
	for n < len(text) && isTokenByte(text[n]) {
		n++
	}
	return text[:n], text[n:]
}

// isBoundary reports whether text is a boundary by RFC 2046 section 5.1.1, without a blank at its ends.
func isBoundary(text string) bool {
	if text == "" || len(text) > maxBoundaryBytes || text[0] == ' ' || text[len(text)-1] == ' ' {
		return false
	}
	for i := range len(text) {
		if c := text[i]; !isAlphanumeric(c) && !strings.Contains("'()+_,-./:=? ", text[i:i+1]) {
			return false
		}
	}
	return true
}

// isTokenByte reports whether c may stand in a token of RFC 9110 section 5.6.2.
func isTokenByte(c byte) bool {
	switch c {
	case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~':
		return true
	default:
		return isAlphanumeric(c)
	}
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// The folding here is of ASCII letters alone: by Unicode's the Kelvin sign is a k and "poſt" is POST.

func lowerASCII(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

func upperASCII(c byte) byte {
	if 'a' <= c && c <= 'z' {
		c -= 'a' - 'A'
	}
	return c
}

func equalFoldASCII(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lowerASCII(a[i]) != lowerASCII(b[i]) {
			return false
		}
	}
	return true
}
