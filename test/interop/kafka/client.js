#!/usr/bin/env node
// client.js: the Kafka clients of node, as README.md has it: kafkajs, platformatic.  NODE_PATH says where they are.
'use strict'

// Nodes before 22 lack what @platformatic/kafka uses.
Promise.withResolvers ??= function () {
  let resolve, reject
  const promise = new Promise((yes, no) => { resolve = yes; reject = no })

  return { promise, resolve, reject }
}

const say = what => process.stdout.write(JSON.stringify(what) + '\n')
const hex = value => value === null || value === undefined ? null : Buffer.from(value).toString('hex')
const unhex = text => text === null || text === undefined ? null : Buffer.from(text, 'hex')

async function input () {
  const chunks = []

  for await (const chunk of process.stdin) chunks.push(chunk)
  return Buffer.concat(chunks).toString().split('\n').filter(line => line).map(line => JSON.parse(line))
}

// Headers by name, as both clients want them; repeated ones as a list.
function byName (headers) {
  const out = {}

  for (const [name, value] of headers ?? []) (out[name] ??= []).push(unhex(value))
  return out
}

// ---- kafkajs ----

function kafkajs (broker, user, password) {
  const { Kafka, CompressionTypes, CompressionCodecs, logLevel, Partitioners } = require('kafkajs')
  const kafka = new Kafka({
    clientId: 'kafkajs', brokers: [broker], logLevel: logLevel.ERROR,
    ...(user ? { sasl: { mechanism: 'scram-sha-256', username: user, password } } : {})
  })
  const codecs = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy, zstd: CompressionTypes.ZSTD, lz4: CompressionTypes.LZ4 }

  CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
  // Node's own zlib has zstd from 22.15 on.
  const zlib = require('zlib')
  if (zlib.zstdCompressSync) {
    CompressionCodecs[CompressionTypes.ZSTD] = () => ({
      compress: async encoder => zlib.zstdCompressSync(encoder.buffer), decompress: async buffer => zlib.zstdDecompressSync(buffer)
    })
  }
  return {
    async produce (topic, codec, idempotent) {
      const producer = kafka.producer({ idempotent: idempotent === 'yes', maxInFlightRequests: idempotent === 'yes' ? 1 : undefined, createPartitioner: Partitioners.DefaultPartitioner })
      const messages = (await input()).map(r => ({
        key: unhex(r.key), value: unhex(r.value), headers: byName(r.headers),
        ...('partition' in r ? { partition: r.partition } : {}), ...('time' in r ? { timestamp: String(r.time) } : {})
      }))

      await producer.connect()
      const answer = await producer.send({ topic, acks: -1, compression: codecs[codec], messages })
      for (const part of answer) say({ partition: part.partition, offset: Number(part.baseOffset) })
      await producer.disconnect()
    },

    async consume (topic, group, count) {
      const consumer = kafka.consumer({ groupId: group, sessionTimeout: 10000, heartbeatInterval: 500, maxWaitTimeInMs: 500, rebalanceTimeout: 10000 })
      let n = 0
      let finish
      const finished = new Promise(resolve => { finish = resolve })

      consumer.on(consumer.events.GROUP_JOIN, e => say({ assigned: (e.payload.memberAssignment[topic] ?? []).sort((a, b) => a - b) }))
      await consumer.connect()
      await consumer.subscribe({ topic, fromBeginning: true })
      await consumer.run({
        autoCommitThreshold: 1,
        eachMessage: async ({ partition, message }) => {
          const headers = []

          for (const [name, value] of Object.entries(message.headers ?? {})) {
            for (const one of Array.isArray(value) ? value : [value]) headers.push([name, hex(one)])
          }
          say({ partition, offset: Number(message.offset), key: hex(message.key), value: hex(message.value), headers, time: Number(message.timestamp) })
          if (++n === Number(count)) finish()
        }
      })
      await finished
      await consumer.disconnect()
    },

    async admin (topic) {
      const admin = kafka.admin()
      const retention = async () => {
        const answer = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type: 2, name: topic }] })

        return answer.resources[0].configEntries.find(e => e.configName === 'retention.ms').configValue
      }

      await admin.connect()
      await admin.createTopics({ topics: [{ topic, numPartitions: 2, replicationFactor: 1, configEntries: [{ name: 'retention.ms', value: '3600000' }] }] })
      await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
      const partitions = (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length
      const first = await retention()
      await admin.alterConfigs({ validateOnly: false, resources: [{ type: 2, name: topic, configEntries: [{ name: 'retention.ms', value: '7200000' }] }] })
      const second = await retention()
      const groups = (await admin.listGroups()).groups.map(g => g.groupId).sort()
      await admin.deleteTopics({ topics: [topic] })
      say({ partitions, retention: [first, second], groups, gone: !(await admin.listTopics()).includes(topic) })
      await admin.disconnect()
    }
  }
}

// ---- @platformatic/kafka ----

async function platformatic (broker, user, password) {
  const { Producer, Consumer, Admin, ConfigResourceTypes } = await import(require.resolve('@platformatic/kafka'))
  const common = {
    clientId: 'platformatic', bootstrapBrokers: [broker], autocreateTopics: true,
    ...(user ? { sasl: { mechanism: 'SCRAM-SHA-256', username: user, password } } : {})
  }

  return {
    async produce (topic, codec, idempotent) {
      const producer = new Producer({ ...common, idempotent: idempotent === 'yes' })
      const messages = (await input()).map(r => ({
        topic, key: unhex(r.key) ?? undefined, value: unhex(r.value) ?? undefined, headers: new Map((r.headers ?? []).map(([name, value]) => [Buffer.from(name), unhex(value)])),
        ...('partition' in r ? { partition: r.partition } : {}), ...('time' in r ? { timestamp: BigInt(r.time) } : {})
      }))
      const answer = await producer.send({ messages, acks: -1, compression: codec })

      for (const part of answer.offsets ?? []) say({ partition: part.partition, offset: Number(part.offset) })
      await producer.close()
    },

    async consume (topic, group, count) {
      const consumer = new Consumer({ ...common, groupId: group, sessionTimeout: 10000, heartbeatInterval: 500, rebalanceTimeout: 10000, maxWaitTime: 500 })
      let n = 0

      const tell = () => {
        const mine = (consumer.assignments ?? []).find(a => a.topic === topic)

        say({ assigned: [...(mine?.partitions ?? [])].sort((a, b) => a - b) })
      }
      consumer.on('consumer:group:join', tell)
      const stream = await consumer.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest', autocommit: false })
      for await (const m of stream) {
        say({
          partition: m.partition, offset: Number(m.offset), key: hex(m.key), value: hex(m.value), time: Number(m.timestamp),
          headers: [...m.headers.entries()].map(([name, value]) => [name.toString(), hex(value)])
        })
        await m.commit()
        if (++n === Number(count)) break
      }
      await consumer.close(true)
    },

    async admin (topic) {
      const admin = new Admin(common)
      const retention = async () => {
        const answer = await admin.describeConfigs({ resources: [{ resourceType: ConfigResourceTypes.TOPIC, resourceName: topic }] })

        return answer[0].configs.find(c => c.name === 'retention.ms').value
      }

      await admin.createTopics({ topics: [topic], partitions: 2, replicas: 1, configs: [{ name: 'retention.ms', value: '3600000' }] })
      await admin.createPartitions({ topics: [{ name: topic, count: 3 }] })
      const partitions = (await admin.metadata({ topics: [topic], forceUpdate: true })).topics.get(topic).partitionsCount
      const first = await retention()
      await admin.incrementalAlterConfigs({ resources: [{ resourceType: ConfigResourceTypes.TOPIC, resourceName: topic, configs: [{ name: 'retention.ms', configOperation: 0, value: '7200000' }] }] })
      const second = await retention()
      const groups = [...(await admin.listGroups()).keys()].sort()
      await admin.deleteTopics({ topics: [topic] })
      say({ partitions, retention: [first, second], groups, gone: !(await admin.listTopics()).includes(topic) })
      await admin.close()
    }
  }
}

const about = {
  kafkajs: { version: () => require('kafkajs/package.json').version, codecs: ['none', 'gzip', 'snappy', ...(require('zlib').zstdCompressSync ? ['zstd'] : [])], null_header: false, repeated_header: true },
  platformatic: { version: () => JSON.parse(require('fs').readFileSync(`${process.env.NODE_PATH}/@platformatic/kafka/package.json`)).version, codecs: ['none', 'gzip', 'snappy', 'lz4', ...(require('zlib').zstdCompressSync ? ['zstd'] : [])], null_header: false, repeated_header: false }
}

async function main (name, what, ...args) {
  if (what === 'about') {
    say({ ...about[name], version: about[name].version() })
    return
  }
  const client = await (name === 'kafkajs' ? kafkajs : platformatic)(...args.slice(0, 3))
  await client[what](...args.slice(3))
  process.exit(0)
}

main(...process.argv.slice(2)).catch(error => {
  console.error(error)
  process.exit(1)
})
