package keys

import (
	"context"
	"encoding/binary"
	"errors"
)

// loading is a replay whose response is to be made from its stored form.
type loading struct {
	ref
	replay *Replay
}

// loadReplays makes the responses of replays, reading the bodies that did not
// come with their rows. complete[i] is false where the record ended meanwhile.
func (s *Service) loadReplays(ctx context.Context, replays []loading) (complete []bool, err error) {
	var missing []bodyRef
	for i, l := range replays {
		if stored := l.replay.stored; stored.bodyBytes > inlineBodyBytes && stored.body == nil {
			missing = append(missing, bodyRef{place: i, ref: l.ref, fence: l.replay.fence})
		}
	}
	if len(missing) > 0 {
		bodies, err := s.store.readBodies(ctx, missing)
		if err != nil {
			return nil, translate(err)
		}
		for n, m := range missing {
			replays[m.place].replay.stored.body = bodies[n]
		}
	}
	complete = make([]bool, len(replays))
	for i, l := range replays {
		stored := l.replay.stored
		if complete[i] = stored.bodyBytes == len(stored.body); !complete[i] {
			continue
		}
		if l.replay.Response, err = stored.response(); err != nil {
			return nil, translate(err)
		}
	}
	return complete, nil
}

func (r storedResponse) response() (Response, error) {
	headers, err := decodeHeaders(r.headers)
	return Response{Status: r.status, Headers: headers, Body: r.body, BodyOmitted: r.bodyOmitted, BodyRef: r.bodyRef}, err
}

// encodeHeaders is the column headers: for each line the length of the name,
// the name, the length of the value, the value.
func encodeHeaders(headers []Header) []byte {
	var out []byte
	for _, h := range headers {
		for _, part := range [2]string{h.Name, h.Value} {
			out = binary.AppendUvarint(out, uint64(len(part)))
			out = append(out, part...)
		}
	}
	return out
}

var errHeaders = errors.New("the stored headers are cut short")

func decodeHeaders(encoded []byte) ([]Header, error) {
	var headers []Header
	for len(encoded) > 0 {
		var parts [2]string
		for i := range parts {
			length, n := binary.Uvarint(encoded)
			if n <= 0 || length > uint64(len(encoded)-n) { //nolint:gosec // n is at most len(encoded)
				return nil, errHeaders
			}
			encoded = encoded[n:]
			parts[i] = string(encoded[:length])
			encoded = encoded[length:]
		}
		headers = append(headers, Header{Name: parts[0], Value: parts[1]})
	}
	return headers, nil
}
