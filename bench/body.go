//go:build linux

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// bodyBytes is the size of a stored response.
const bodyBytes = 2048

// responseBody is a compact JSON answer of a payment API, of bodyBytes bytes:
// the same in every run, with as much chance in it as real ones have, so that
// it compresses to about half.
func responseBody() string {
	var b strings.Builder
	b.WriteString(`{"id":"ch_3PqR8s2eZvKYlo2C","object":"charge","amount":4999,"currency":"eur","captured":true,"livemode":true,"items":[`)
	for i := 0; ; i++ {
		sum := sha256.Sum256([]byte{byte(i)})
		digits := hex.EncodeToString(sum[:])
		item := fmt.Sprintf(`{"id":"li_%s","object":"line_item","sku":"sku_%s","quantity":%d,"unit_amount":%d,"tax_rate":"txr_%s","description":"Item no. %d"},`,
			digits[:20], digits[20:28], sum[0]%9+1, int(sum[1])*37, digits[28:40], i+1)
		const tail = `{"id":"li_last","note":""}]}`
		if b.Len()+len(item)+len(tail) > bodyBytes {
			text := b.String() + `{"id":"li_last","note":"` + strings.Repeat(" ", bodyBytes-b.Len()-len(tail)) + `"}]}`
			return text
		}
		b.WriteString(item)
	}
}
