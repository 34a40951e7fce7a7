package fingerprint

import (
	"math"
	"strconv"
)

// maxExponentDigits is how many digits the exponent of a number may have after its leading zeros. It keeps every sum
// with an exponent far inside 64 bits.
const maxExponentDigits = 15

// number is a JSON number taken apart: its value is the digits, read as a whole number, times ten to the exponent.
type number struct {
	negative bool
	// digits go from the first digit that is not zero to the last; a decimal point may stand among them. Empty: zero.
	digits   []byte
	exponent int64
	// endless says that the written exponent has more than maxExponentDigits digits; exponent then means nothing.
	endless bool
}

// readNumber reads the JSON number (RFC 8259 section 6) with which text starts, and returns how many bytes it takes:
// 0 where there is none.
func readNumber(text []byte) (num number, size int) {
	i := 0
	if i < len(text) && text[i] == '-' {
		num.negative = true
		i++
	}
	first := i
	i = skipDigits(text, i)
	if i == first || text[first] == '0' && i > first+1 {
		return number{}, 0
	}
	point := i
	if i < len(text) && text[i] == '.' {
		i = skipDigits(text, point+1)
		if i == point+1 {
			return number{}, 0
		}
	}

	last := i - 1
	for first <= last && (text[first] == '0' || text[first] == '.') {
		first++
	}
	for first <= last && (text[last] == '0' || text[last] == '.') {
		last--
	}
	num.digits = text[first : last+1]

	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		i = num.readExponent(text, i+1)
		if i == 0 {
			return number{}, 0
		}
	}
	if last < point {
		num.exponent += int64(point - 1 - last)
	} else {
		num.exponent -= int64(last - point)
	}
	return num, i
}

// readExponent reads what follows the letter e at text[i] and returns where it ends: 0 where it is none.
func (num *number) readExponent(text []byte, i int) int {
	negative := false
	if i < len(text) && (text[i] == '+' || text[i] == '-') {
		negative = text[i] == '-'
		i++
	}
	start := i
	for i < len(text) && text[i] == '0' {
		i++
	}
	significant := i
	i = skipDigits(text, i)
	if i == start {
		return 0
	}
	if i-significant > maxExponentDigits {
		num.endless = true
		return i
	}
	for _, c := range text[significant:i] {
		num.exponent = num.exponent*10 + int64(c-'0')
	}
	if negative {
		num.exponent = -num.exponent
	}
	return i
}

func skipDigits(text []byte, i int) int {
	for i < len(text) && '0' <= text[i] && text[i] <= '9' {
		i++
	}
	return i
}

// append appends the canonical form: sign, digits without leading and trailing zeros, and the exponent unless it is
// zero. Zero has no sign. RFC 8785 would print the nearest double; there 9007199254740993 is 9007199254740992.
func (num *number) append(dst []byte) []byte {
	if len(num.digits) == 0 {
		return append(dst, '0')
	}
	if num.negative {
		dst = append(dst, '-')
	}
	for _, c := range num.digits {
		if c != '.' {
			dst = append(dst, c)
		}
	}
	if num.exponent != 0 {
		dst = append(dst, 'e')
		dst = strconv.AppendInt(dst, num.exponent, 10)
	}
	return dst
}

// WholeNumber reads the text of a JSON number exactly, however it is written: 30, 30.0 and 3e1 are 30. It reports
// false where text is no JSON number, not whole, or outside int64. It never passes through floating point, and its
// time grows with the length of the text only, never with the exponent.
func WholeNumber(text string) (n int64, ok bool) {
	num, size := readNumber([]byte(text))
	if size == 0 || size != len(text) {
		return 0, false
	}
	if len(num.digits) == 0 {
		return 0, true // zero, whatever the exponent
	}
	// The last digit is not zero, so a negative exponent leaves a fraction.
	const maxDigits = 19 // of math.MaxInt64; 19 digits of any value fit in a uint64
	if num.endless || num.exponent < 0 || num.exponent >= maxDigits {
		return 0, false
	}
	var magnitude uint64
	digits := int(num.exponent)
	for _, c := range num.digits {
		if c == '.' {
			continue
		}
		if digits++; digits > maxDigits {
			return 0, false
		}
		magnitude = magnitude*10 + uint64(c-'0')
	}
	for range num.exponent {
		magnitude *= 10
	}
	switch {
	case magnitude <= math.MaxInt64 && num.negative:
		return -int64(magnitude), true
	case magnitude <= math.MaxInt64:
		return int64(magnitude), true
	case magnitude == -math.MinInt64 && num.negative:
		return math.MinInt64, true
	default:
		return 0, false
	}
}
