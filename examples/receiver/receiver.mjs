// A service that duly pushes jobs to. It verifies the signature of each request
// as Standard Webhooks specifies, and answers 204. It needs only Node.
//
//	WEBHOOK_SECRET=whsec_… node receiver.mjs 8080

import { createHmac, createPublicKey, timingSafeEqual, verify as verifyEd25519 } from 'node:crypto'
import { createServer } from 'node:http'

const maxBody = 1 << 20
const tolerance = 5 * 60 // seconds

// checker returns the version of the signatures that fit the secret, and the
// function that checks one. whsec_… is for v1, whpk_… (the public key) for v1a.
function checker(secret) {
  const [kind, encoded = ''] = secret.split('_')
  const key = Buffer.from(encoded, 'base64')
  if (kind === 'whsec' && key.length > 0) {
    return ['v1', (text, signature) => {
      const expected = createHmac('sha256', key).update(text).digest()
      return expected.length === signature.length && timingSafeEqual(expected, signature)
    }]
  }
  if (kind === 'whpk' && key.length === 32) {
    // The bytes before the key say that it is one of ed25519.
    const der = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), key])
    const publicKey = createPublicKey({ key: der, format: 'der', type: 'spki' })
    return ['v1a', (text, signature) => verifyEd25519(null, text, publicKey, signature)]
  }
  throw new Error('WEBHOOK_SECRET is neither whsec_… nor whpk_…')
}

const [version, check] = checker(process.env.WEBHOOK_SECRET ?? '')

// verify reports whether a request was signed with the secret, a moment ago.
function verify(headers, body) {
  const timestamp = headers['webhook-timestamp'] ?? ''
  const age = Date.now() / 1000 - Number(timestamp)
  // An older request may be a copy that somebody sends again.
  if (!/^\d+$/.test(timestamp) || Math.abs(age) > tolerance) return false

  const text = Buffer.concat([Buffer.from(`${headers['webhook-id']}.${timestamp}.`), body])
  // While the secret rotates there are several signatures. One right one is enough.
  return (headers['webhook-signature'] ?? '').split(' ').some((one) => {
    const [v, encoded = ''] = one.split(',')
    return v === version && check(text, Buffer.from(encoded, 'base64'))
  })
}

// handle is where your work goes. It may see one ID twice, for example after an
// answer that was lost, so it should do nothing the second time.
function handle(id, body) {
  console.log(`${id}: ${body.length} bytes`)
}

const server = createServer((req, res) => {
  // The signature covers the bytes as they came, so collect them unparsed.
  const parts = []
  let size = 0
  req.on('data', (part) => {
    size += part.length
    if (size > maxBody) {
      res.writeHead(413, { connection: 'close' }).end()
      req.removeAllListeners('data').removeAllListeners('end').resume()
      return
    }
    parts.push(part)
  })
  req.on('end', () => {
    const body = Buffer.concat(parts)
    if (!verify(req.headers, body)) {
      res.writeHead(401).end('no signature is right, or the timestamp is old\n')
      return
    }
    try {
      handle(req.headers['webhook-id'], body)
      res.writeHead(204).end()
    } catch (error) {
      console.error(error)
      res.writeHead(500).end('try again\n')
    }
  })
})

server.listen(Number(process.argv[2] ?? 8080), '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`)
})
