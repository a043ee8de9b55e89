# M11: a subscriber may ask for history, from an offset, a time or the beginning, by user property fl-from or by the topic
# form $s/<from>/<filter>; then it goes on live without a seam.  M12: positions, gaps and the end at a drop are told.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use FleetlogTest;

my $s = FleetlogTest->new('history', conf => "fleetlog.session_journal_size = 64kB\nfleetlog.worker_retry = 100ms\n");
$s->fleet(devices => 4, shards => 2);

# ---- clients and what they say ----

my $publisher;
sub connect_publisher
{
    $publisher = $s->raw;
    $publisher->login(client_id => 'publisher', user => 'acme/d1', password => 'pw-d1', clean => 1);
    return;
}
connect_publisher();

sub client
{
    my ($id, %opt) = @_;
    my $version = $opt{version} // 5;
    my $device = $opt{device} // 'd1';
    my $c = $s->raw(version => $version);
    my @properties = $version == 5 ? ([ 17, $opt{expiry} // 0 ], @{ $opt{properties} // [] }) : ();
    my $ack = $c->login(client_id => $id, user => $opt{user} // "acme/$device", password => "pw-$device", clean => $opt{clean} // 1, properties => \@properties);

    die 'refused' unless ref $ack && $ack->{reason} == 0;
    $c->{connack} = $ack;
    return $c;
}

# Subscribes and returns the SUBACK; what was sent before it is kept.
sub ask
{
    my ($c, $filters, %wish) = @_;
    my $pid = $c->next_pid;
    my @properties = map { [ 38, "fl-$_", $wish{$_} ] } grep { /^(?:from|position|on-drop)$/ } sort keys %wish;
    my $body = pack('n', $pid);

    push @properties, @{ $wish{properties} } if $wish{properties};
    $body .= FleetlogTest::Mqtt::properties(\@properties) if $c->{version} == 5;
    $body .= join '', map { ref $_ ? FleetlogTest::Mqtt::str($_->[0]) . chr($_->[1]) : FleetlogTest::Mqtt::str($_) . "\1" } @$filters;
    $c->send_raw(FleetlogTest::Mqtt::packet(0x82, $body));
    my @early;
    while (1)
    {
        my $p = $c->read_packet;
        die 'no SUBACK' unless ref $p;
        if ($p->{name} eq 'SUBACK') { unshift @{ $c->{pushed} }, @early; return $p; }
        push @early, $p;
    }
}

sub told { my ($p, $name) = @_; my ($found) = grep { $_->[0] == 38 && $_->[1] eq $name } @{ $p->{properties} }; return $found ? $found->[2] : undef; }
sub send_all { my ($topic, @texts) = @_; $publisher->publish_acked($topic, $_) for @texts; return; }
sub texts { return join ' ', map { $_->{payload} } @_; }
sub gone { my ($id) = @_; $s->wait_for("SELECT count(*) FROM fleetlog.stat_connection WHERE client_id = '$id'", '0', "$id to have gone"); return; }
sub kept { my ($id) = @_; $s->wait_for("SELECT connected FROM fleetlog.stat_session WHERE client_id = '$id'", 'f', "$id to have gone"); return; }
sub shard_of { my ($topic, $stream) = @_; return $s->sql('SELECT shard FROM ' . ($stream // 'telemetry') . " WHERE key = '$topic' LIMIT 1"); }
sub offset_of { my ($topic, $text) = @_; return $s->sql("SELECT log_offset FROM telemetry WHERE key = '$topic' AND payload = '$text'"); }

# ---- M11: each form, both ways, all versions ----

my $t = 'acme/d1/forms';
send_all($t, map { "m$_" } 1 .. 5);
my $shard = shard_of($t);
my $third = offset_of($t, 'm3');
my $at = $s->sql("SELECT to_char(ts AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') FROM telemetry WHERE key = '$t' AND payload = 'm3'");
my $unix = $s->sql("SELECT to_char(extract(epoch FROM ts), 'FM99999999990.000000') FROM telemetry WHERE key = '$t' AND payload = 'm3'");
my %forms = (
    beginning => [ 'beginning', 'm1 m2 m3 m4 m5' ],
    offset => [ "$shard:$third", 'm3 m4 m5' ],
    epoch => [ "$shard:$third\@0", 'm3 m4 m5' ],
    both => [ join(',', map { $_ == $shard ? "$_:$third" : "$_:0" } 0, 1), 'm3 m4 m5' ],
    other => [ (1 - $shard) . ':0', 'm1 m2 m3 m4 m5' ],
    time => [ $at, 'm3 m4 m5' ],
    unix => [ $unix, 'm3 m4 m5' ],
    ancient => [ '1999-01-01T00:00:00Z', 'm1 m2 m3 m4 m5' ]);
my $live = 0;
for my $form (sort keys %forms)
{
    for my $how ('property', 3, 4, 5)
    {
        my ($from, $expected) = @{ $forms{$form} };
        my $version = $how eq 'property' ? 5 : $how;
        my $c = client("form-$form-$how", version => $version);
        my $ack = $how eq 'property' ? ask($c, [ [ $t, 1 ] ], from => $from) : ask($c, [ [ "\$s/$from/$t", 1 ] ]);

        is("@{ $ack->{reasons} }", '1', "$form by $how: granted");
        my @got = $c->messages(scalar split / /, $expected);
        is(texts(@got), $expected, "$form by $how: from there on");
        is(join('', map { $_->{retain} . $_->{dup} } @got), '00' x @got, "$form by $how: as records, not as retained ones");
        $live++;
        send_all($t, "x$live");
        is(texts($c->messages(1)), "x$live", "$form by $how: then live");
        $c->disconnect;
        $_->[1] .= " x$live" for values %forms;
    }
}

# ---- refused, with the reason ----

my $c = client('refused');
for my $case (
    [ 'yesterday', qr/not beginning/ ], [ '', qr/not beginning/ ], [ '2026-13-01T00:00:00Z', qr/RFC 3339/ ], [ '0:1,0:2', qr/twice/ ],
    [ '7:0', qr/shard that the stream does not have/ ], [ 'nowhere:0:0', qr/does not reach/ ], [ '0:-1', qr/not beginning/ ])
{
    my $ack = ask($c, [ [ $t, 1 ], [ 'acme/d1/other', 0 ] ], from => $case->[0]);
    is("@{ $ack->{reasons} }", '131 131', "fl-from '$case->[0]' is refused with 0x83");
    like(FleetlogTest::Mqtt::property($ack, 31), $case->[1], '... and the reason is told');
}
for my $wish ([ position => 'yes' ], [ 'on-drop' => 'stop' ])
{
    my $ack = ask($c, [ [ $t, 1 ] ], @$wish);
    is("@{ $ack->{reasons} }", '131', "fl-$wish->[0]: $wish->[1] is refused");
    like(FleetlogTest::Mqtt::property($ack, 31), qr/fl-$wish->[0] is neither/, '... and the reason is told');
}
for my $filter ("\$s/yesterday/$t", '$s/beginning', '$s/beginning/', "\$s/beginning/\$s/beginning/$t", "\$s/beginning/\$share/g/$t")
{
    my $ack = ask($c, [ [ $filter, 1 ] ]);
    is("@{ $ack->{reasons} }", '143', "$filter is refused with 0x8F");
}
is("@{ ask($c, [ [ qq(\$s/beginning/$t), 1 ] ], from => 'beginning')->{reasons} }", '131', 'both at once is refused');
my $ack = ask($c, [ [ "\$share/g/$t", 1 ] ], from => 'beginning');
is("@{ $ack->{reasons} }", '131', 'history of a shared subscription is refused');
like(FleetlogTest::Mqtt::property($ack, 31), qr/group/, '... and the reason is told');
is("@{ ask($c, [ [ qq(\$share/g/\$s/beginning/$t), 1 ] ])->{reasons} }", '143', '... in the topic form, too');
is("@{ ask($c, [ [ 'acme/d2/x', 1 ] ], from => 'beginning')->{reasons} }", '135', 'no right to the filter, no right to its history');
is("@{ ask($c, [ [ '$s/beginning/acme/d2/x', 1 ] ])->{reasons} }", '135', '... in the topic form, too');
my $old = client('refused-4', version => 4);
is("@{ ask($old, [ [ '$s/yesterday/acme/d1/x', 1 ], [ '$s/beginning/acme/d2/x', 1 ] ])->{reasons} }", '128 128', 'a client of 3.1.1 gets 0x80');
$old->disconnect;
my $silent = client('silent', properties => [ [ 23, 0 ] ]);
$ack = ask($silent, [ [ $t, 1 ] ], from => 'yesterday');
is("@{ $ack->{reasons} } " . scalar @{ $ack->{properties} }, '131 0', 'who asked for no problem information gets a code alone');
$silent->disconnect;
my $tight = client('tight', properties => [ [ 39, 40 ] ]);
$ack = ask($tight, [ [ $t, 1 ] ], from => 'yesterday');
is("@{ $ack->{reasons} } " . scalar @{ $ack->{properties} }, '131 0', 'what would make the SUBACK too large for the client is left out');
$tight->disconnect;
$c->ping;
ok($c->quiet(0), 'nothing of what was refused is delivered');
$c->disconnect;


# ---- the seam: history of some thousand records while others come, at every QoS and with a small window ----

sub flood { my ($topic, $from, $to) = @_; $publisher->publish($topic, $_, qos => 0) for $from .. $to; return; }
my $n = 0;
for my $case ([ 0, 5, 20 ], [ 1, 5, 20 ], [ 1, 5, 1 ], [ 1, 4, 20 ], [ 0, 4, 20 ])
{
    my ($qos, $version, $window) = @$case;
    my $topic = 'acme/d1/seam/' . ++$n;
    my $name = "QoS $qos, version $version, window $window";

    # A record of QoS 0 is delivered at QoS 0: a few at QoS 1 among them make the window matter.
    for my $i (1 .. 20) { flood($topic, $i * 100 - 99, $i * 100 - 1); send_all($topic, $i * 100); }
    my $c = client("seam-$n", version => $version, properties => [ [ 33, $window ] ]);
    flood($topic, 2001, 2100);
    my $ack = ask($c, [ [ "\$s/beginning/$topic", $qos ] ]);
    is("@{ $ack->{reasons} }", $qos, "$name: granted");
    for my $i (22 .. 30) { flood($topic, $i * 100 - 99, $i * 100 - 1); send_all($topic, $i * 100); }
    my @got = $c->messages(3000);
    is(scalar(@got), 3000, "$name: all came");
    is(texts(@got), join(' ', 1 .. 3000), "$name: in order, none twice") if $qos == 0;
    # QoS 0 does not wait for QoS 1, but each kind is in order.
    is(texts(grep { $_->{qos} } @got), join(' ', map { $_ * 100 } 1 .. 20, 22 .. 30), "$name: QoS 1 in order, none twice") if $qos;
    is(texts(grep { !$_->{qos} } @got), join(' ', grep { $_ % 100 || $_ == 2100 } 1 .. 3000), "$name: QoS 0 in order, none twice") if $qos;
    $c->ping;
    ok($c->quiet(0), "$name: and nothing more");
    $c->disconnect;
}

# At QoS 2 each is handed over once, too.
$publisher->publish_released('acme/d1/exact', "e$_") for 1 .. 30;
my $exact = client('exact', properties => [ [ 33, 3 ] ]);
is("@{ ask($exact, [ [ 'acme/d1/exact', 2 ] ], from => 'beginning')->{reasons} }", '2', 'QoS 2: granted');
$publisher->publish_released('acme/d1/exact', "e$_") for 31 .. 33;
my @exact;
while (@exact < 33)
{
    my $p = $exact->read_packet;
    last unless ref $p;
    if ($p->{name} eq 'PUBLISH') { push @exact, $p; $exact->pubrec($p->{pid}); }
    elsif ($p->{name} eq 'PUBREL') { $exact->pubcomp($p->{pid}); }
}
is(join(' ', map { "$_->{payload}:$_->{qos}" } @exact), join(' ', map { "e$_:2" } 1 .. 33), '... history, then live, in order, none twice');
$exact->disconnect;

# ---- what was aborted is passed over, however much it is, by who reads live, in a group, or back ----

send_all('acme/d1/holes', 'before');
my %reader = map { $_ => client("holes-$_") } qw(live group past);
ask($reader{live}, [ [ 'acme/d1/holes', 1 ] ]);
ask($reader{group}, [ [ '$share/h/acme/d1/holes', 1 ] ]);
my $hole = shard_of('acme/d1/holes');
my $pages = $s->sql("SELECT sum(pg_relation_size(relid)) / 8192 FROM pg_partition_tree('telemetry') WHERE isleaf");
$s->sql("BEGIN; SELECT count(fleetlog.append('telemetry', 'acme/d1/holes', convert_to(md5(n::text) || md5((n + 1)::text), 'UTF8'), shard => $hole)) FROM generate_series(1, 60000) n; ROLLBACK");
cmp_ok($s->sql("SELECT sum(pg_relation_size(relid)) / 8192 FROM pg_partition_tree('telemetry') WHERE isleaf"), '>', $pages + 600, 'more pages than one turn looks at hold nothing');
send_all('acme/d1/holes', 'after');
ask($reader{past}, [ [ 'acme/d1/holes', 1 ] ], from => 'beginning');
is(texts($reader{past}->messages(2)), 'before after', 'history goes over them');
is(texts($reader{$_}->messages(1)), 'after', "... and who reads $_ does") for qw(live group);
$_->disconnect for values %reader;

# ---- several subscriptions of one connection ----

$c = client('several');
send_all('acme/d1/two/a', map { "a$_" } 1 .. 5);
send_all('acme/d1/two/b', 'b0');
ask($c, [ [ 'acme/d1/two/b', 1 ] ], properties => [ [ 11, 1 ] ]);
send_all('acme/d1/two/b', map { "b$_" } 1 .. 3);
is(texts($c->messages(3)), 'b1 b2 b3', 'a live subscription');
$ack = ask($c, [ [ 'acme/d1/two/+', 1 ] ], from => 'beginning', properties => [ [ 11, 2 ] ]);
is("@{ $ack->{reasons} }", '1', 'beside it another one from the beginning');
send_all('acme/d1/two/b', 'b4');
my @got = $c->messages(10);
is(join(' ', sort map { $_->{payload} } @got), 'a1 a2 a3 a4 a5 b0 b1 b2 b3 b4', 'which gets everything once');
is(join(' ', map { "$_->{payload}:" . join('', sort map { $_->[1] } grep { $_->[0] == 11 } @{ $_->{properties} }) } grep { $_->{payload} =~ /^b/ } @got),
    'b0:2 b1:2 b2:2 b3:2 b4:12', 'what the first one had been given is not for it again; what is new is for both');
$ack = ask($c, [ [ 'acme/d1/two/+', 1 ] ], from => 'beginning', properties => [ [ 11, 2 ] ]);
is(join(' ', sort map { $_->{payload} } $c->messages(10)), 'a1 a2 a3 a4 a5 b0 b1 b2 b3 b4', 'asked once more, it begins once more');
send_all('acme/d1/two/a', 'a6');
is(texts($c->messages(1)), 'a6', '... and is live again');
$shard = shard_of('acme/d1/two/a');
my $a4 = offset_of('acme/d1/two/a', 'a4');
$c->unsubscribe('acme/d1/two/+');
ask($c, [ [ 'acme/d1/two/a', 1 ], [ 'acme/d1/+/a', 1 ] ], from => "$shard:$a4," . (1 - $shard) . ':0');
is(texts($c->messages(3)), 'a4 a5 a6', 'two filters of one packet begin at the offset and make one delivery');
$c->disconnect;

# A window that is not acknowledged holds the history where it is; unsubscribing gives it up.
send_all('acme/d1/long', map { "l$_" } 1 .. 300);
$c = client('given-up', properties => [ [ 33, 2 ] ]);
ask($c, [ [ 'acme/d1/long', 1 ] ], from => 'beginning');
my @held = map { $c->expect('PUBLISH') } 1, 2;
is(texts(@held), 'l1 l2', 'two are under way');
is(join(',', $c->unsubscribe('acme/d1/long')), '0', 'the history is given up');
ask($c, [ [ 'acme/d1/after', 1 ] ]);
send_all('acme/d1/after', 'after');
$c->puback($_->{pid}) for @held;
my @rest;
until (@rest && $rest[-1]{payload} eq 'after') { my ($m) = $c->messages(1); last unless $m; push @rest, $m; }
is($rest[-1]{payload}, 'after', 'what is new comes');
cmp_ok(scalar @rest, '<', 100, '... behind what was at hand, and not behind all of it');
$c->disconnect;

# ---- No Local, rights ----

$publisher->disconnect;
gone('publisher');
connect_publisher();
ask($publisher, [ [ 'acme/d1/two/a', 1 | 4 ], [ 'acme/d1/two/b', 1 ] ], from => 'beginning');
my @own = $publisher->messages(5);
is(join(' ', sort map { $_->{payload} } @own), 'b0 b1 b2 b3 b4', 'No Local holds for history');
$publisher->disconnect;
gone('publisher');
connect_publisher();

# ---- ahead of the log ----

$c = client('ahead');
$shard = shard_of('acme/d1/two/a');
my $tail = $s->sql("SELECT fleetlog.tail('telemetry', $shard)");
$ack = ask($c, [ [ 'acme/d1/two/a', 1 ] ], from => "$shard:" . ($tail + 2) . ',' . (1 - $shard) . ':' . $s->sql("SELECT fleetlog.tail('telemetry', " . (1 - $shard) . ')'));
is("@{ $ack->{reasons} }", '1', 'an offset that is not there yet is granted');
like(FleetlogTest::Mqtt::property($ack, 31), qr/^2 records before the position are not there yet/, '... and told');
send_all('acme/d1/two/a', 'early 1', 'early 2', 'there');
is(texts($c->messages(1)), 'there', '... and what comes is what was asked for');
$ack = ask($c, [ [ 'acme/d1/two/b', 1 ] ], from => '2200-01-01T00:00:00Z');
send_all('acme/d1/two/b', 'too early');
send_all('acme/d1/two/a', 'now');
is(texts($c->messages(1)), 'now', 'a time to come: nothing before it');
$c->disconnect;

# ---- the log is another one ----

$c = client('diverged');
$ack = ask($c, [ [ 'acme/d1/two/a', 1 ] ], from => "$shard:$a4\@0," . (1 - $shard) . ':0@7');
is("@{ $ack->{reasons} }", '131', 'an epoch that this log does not know is refused');
like(FleetlogTest::Mqtt::property($ack, 31), qr/another one/, '... and told');
my $resume = told($ack, 'fl-resume');
like($resume, qr/^0:\d+\@\d+,1:\d+\@\d+$/, '... and where to go on');
like($resume, qr/\b$shard:$a4\@0\b/, '... where the other position stands as it was');
$ack = ask($c, [ [ 'acme/d1/two/a', 1 ] ], from => $resume);
is("@{ $ack->{reasons} }", '1', 'which is taken');
is(($c->messages(1))[0]{payload}, 'a4', '... and leads on');
$c->disconnect;

# ---- M12: positions ----

$c = client('positions');
$publisher->publish_acked('acme/d1/pos', 'spoof', properties => [ map { [ 38, @$_ ] } [ 'x', '1' ], [ 'fl-offset', '999' ], [ 'fl-gap', '5' ], [ 'y', '2' ] ]);
send_all('acme/d1/pos', 'p2');
ask($c, [ [ 'acme/d1/pos', 1 ] ], from => 'beginning', position => 'on');
send_all('acme/d1/pos', 'p3');
@got = $c->messages(3);
for my $m (@got)
{
    is($s->sql("SELECT shard || ' ' || log_offset || ' ' || to_char(ts AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') FROM telemetry WHERE key = 'acme/d1/pos' AND payload = '$m->{payload}'"),
        join(' ', map { told($m, $_) } qw(fl-shard fl-offset fl-ts)), "$m->{payload} tells its position");
    is(join(' ', map { told($m, $_) // 'none' } qw(fl-epoch fl-gap fl-stream)), '0 none none', '... its epoch, and no more');
}
is(join(' ', map { "$_->[1]=$_->[2]" } grep { $_->[0] == 38 && $_->[1] !~ /^fl-(?:shard|ts|epoch)$/ } @{ $got[0]{properties} }),
    'fl-offset=' . offset_of('acme/d1/pos', 'spoof') . ' x=1 y=2', 'nobody can tell a subscriber a position that is none');
ask($c, [ [ 'acme/d1/pos', 1 ] ], position => 'off');
send_all('acme/d1/pos', 'p4');
is(scalar(grep { $_->[0] == 38 } @{ ($c->messages(1))[0]{properties} }), 0, 'subscribed again without: no positions');
my $seen = told($got[1], 'fl-shard') . ':' . (told($got[1], 'fl-offset') + 1) . '@' . told($got[1], 'fl-epoch');
ask($c, [ [ 'acme/d1/pos', 1 ] ], from => $seen);
is(texts($c->messages(2)), 'p3 p4', 'a position that was told is one to begin behind');
ask($c, [ [ 'acme/d1/pos', 1 ] ], from => told($got[1], 'fl-ts'));
is(texts($c->messages(3)), 'p2 p3 p4', '... and so is a time');
$c->disconnect;
$c = client('group');
ask($c, [ [ '$share/g/acme/d1/pos', 1 ] ], position => 'on');
send_all('acme/d1/pos', 'p5');
is(told(($c->messages(1))[0], 'fl-offset'), offset_of('acme/d1/pos', 'p5'), 'a member of a group is told positions, too');
$c->disconnect;

# ---- several streams ----

$s->sql("SELECT fleetlog.create_stream('second'); SELECT fleetlog.mount('acme/d1/x/', 'second')");
send_all('acme/d1/x/one', 's1', 's2');
send_all('acme/d1/y', 't1', 't2');
send_all('acme/d1/x', 'parent');
$c = client('streams');
my $some = 'acme/d1/+/one';
is("@{ ask($c, [ [ 'acme/d1/#', 1 ] ], from => '0:5')->{reasons} }", '131', 'offsets without a name are refused where a filter reaches several streams');
like(FleetlogTest::Mqtt::property(ask($c, [ [ $some, 1 ] ], from => '0:5'), 31), qr/write <stream>:<shard>:<offset>/, '... and told how to write them');
is("@{ ask($c, [ [ 'acme/d1/x/#', 1 ] ], from => '0:1')->{reasons} }", '1', 'not where a longer mount takes all of its topics');
is(texts($c->messages(1)), 's2', '... whose stream is meant');
ask($c, [ [ 'acme/d1/x/#', 1 ] ], from => 'beginning');
is(join(' ', sort map { $_->{payload} } $c->messages(3)), 'parent s1 s2', 'the topic above, which is of another stream, has its history, too');
$c->unsubscribe('acme/d1/x/#');
my $ty = shard_of('acme/d1/y');
my $o1 = offset_of('acme/d1/y', 't1');
is("@{ ask($c, [ [ 'acme/d1/#', 1 ] ], from => qq(second:0:1,public.telemetry:$ty:$o1,telemetry:) . (1 - $ty) . ':' . $s->sql(qq(SELECT fleetlog.tail('telemetry', 1 - $ty))), position => 'on')->{reasons} }", '1', 'with names they are taken');
# Streams and shards come in any order, and the topic above is of the one shard or of the other.
my $with = shard_of('acme/d1/x') == $ty ? 1 : 0;
@got = grep { $_->{payload} ne 'parent' } $c->messages(3 + $with);
is(join(' ', sort map { $_->{payload} } @got), 's2 t1 t2', '... for each stream');
is(join(' ', map { "$_->{payload}:" . told($_, 'fl-stream') } sort { $a->{payload} cmp $b->{payload} } @got), 's2:second t1:telemetry t2:telemetry', '... and the stream is told');
$c->disconnect;

# Unmounted while it is read: what its topics brought is not delivered any more, all else is.
$c = client('unmounted', properties => [ [ 33, 1 ] ]);
send_all('acme/d1/x/one', map { "s$_" } 3 .. 40);
ask($c, [ [ 'acme/d1/x/one', 1 ], [ 'acme/d1/z', 1 ] ], from => 'beginning');
my $first = $c->expect('PUBLISH');
is($first->{payload}, 's1', 'one is under way');
$s->sql("SELECT fleetlog.unmount('acme/d1/x/')");
send_all('acme/d1/z', 'z1');
$c->puback($first->{pid});
my $last = '';
while ($last ne 'z1') { my ($m) = $c->messages(1); last unless $m; $last = $m->{payload}; }
is($last, 'z1', 'a stream that is unmounted meanwhile holds nothing up');
$c->disconnect;
$s->sql("SELECT fleetlog.mount('acme/d1/x/', 'second')");

# ---- retained values: those that are older than the beginning come first ----

$s->sql("SELECT fleetlog.create_state('kept'); SELECT fleetlog.mount('acme/d3/', 'second', 'kept')");
my $p3 = client('d3', device => 'd3');
my $retain = sub { my ($topic, $text) = @_; $p3->publish_acked($topic, $text, retain => 1); return $s->sql("SELECT log_offset FROM second WHERE key = '$topic' ORDER BY 1 DESC LIMIT 1"); };
$retain->('acme/d3/r/a', 'a-old');
$retain->('acme/d3/r/b', 'b-only');
my $from = $retain->('acme/d3/r/a', 'a-new');
$retain->('acme/d3/r/c', 'c-new');
for my $form ("0:$from", $s->sql("SELECT to_char(extract(epoch FROM ts), 'FM99999999990.000000') FROM second WHERE log_offset = $from"))
{
    my $c = client('retained', device => 'd3');
    ask($c, [ [ 'acme/d3/r/+', 1 ] ], from => $form, position => 'on');
    my @got = sort { $a->{payload} cmp $b->{payload} } $c->messages(3);
    is(join(' ', map { "$_->{payload}:$_->{retain}" } @got), 'a-new:0 b-only:1 c-new:0', "from $form: values that are older as retained, the rest as history, none twice");
    is(told($got[1], 'fl-offset'), $s->sql("SELECT log_offset FROM second WHERE key = 'acme/d3/r/b'"), '... with its position');
    $c->disconnect;
    gone('retained');
}
$c = client('not-retained', device => 'd3');
ask($c, [ [ 'acme/d3/r/+', 1 | 0x20 ] ], from => "0:$from");
is(join(' ', map { "$_->{payload}:$_->{retain}" } $c->messages(2)), 'a-new:0 c-new:0', 'with retain handling 2, history alone');
$c->ping;
ok($c->quiet(0), '... and nothing more');
$c->disconnect;
$p3->disconnect;

# ---- sessions: their bookmarks begin there ----

for my $how (qw(reconnect restart crash))
{
    my $topic = "acme/d1/kept/$how";
    send_all($topic, map { "k$_" } 1 .. 30);
    my $c = client("kept-$how", expiry => 300, clean => 0, properties => [ [ 33, 5 ] ]);
    ask($c, [ [ 'acme/d1/kept/live', 1 ] ]);
    send_all('acme/d1/kept/live', "v1-$how");
    is(texts($c->messages(1)), "v1-$how", "$how: a live subscription");
    $c->ping;
    is("@{ ask($c, [ [ $topic, 1 ] ], from => 'beginning', position => 'on')->{reasons} }", '1', "$how: and one from the beginning");
    my @under_way = map { $c->expect('PUBLISH') } 1 .. 5;
    is(texts(@under_way), 'k1 k2 k3 k4 k5', "$how: some of it is under way");
    if ($how eq 'reconnect') { $c->reset; kept("kept-$how"); }
    elsif ($how eq 'restart') { $s->node->restart; $s->wait_for_mqtt; $c->close; connect_publisher(); }
    else { $s->kill9_and_start; $s->wait_for_mqtt; $c->close; connect_publisher(); }
    send_all('acme/d1/kept/live', "v2-$how");
    $c = client("kept-$how", expiry => 300, clean => 0, properties => [ [ 33, 5 ] ]);
    is($c->{connack}{session_present}, 1, "$how: the session is there");
    my @got = $c->messages(31);
    is(texts(grep { $_->{payload} =~ /^k/ } @got), join(' ', map { "k$_" } 1 .. 30), "$how: it goes on, from what was under way");
    is(texts(grep { $_->{payload} =~ /^v/ } @got), "v2-$how", "$how: the other one gets what is new, and what it had been given not again");
    is(told($got[-1], 'fl-offset') // told($got[-2], 'fl-offset'), offset_of($topic, 'k30'), "$how: positions are told on");
    $c->ping;
    ok($c->quiet(0), "$how: and nothing more");
    $c->disconnect;
}

# At QoS 2 what waited when the session looked back comes once, over a crash, too: what was complete, and what was not.
{
    my $topic = 'acme/d1/kept2';
    my @session = ('kept-2', expiry => 300, clean => 0, properties => [ [ 33, 1 ] ]);
    $publisher->publish_released("$topic/old", "o$_") for 1 .. 3;
    my $c = client(@session);
    ask($c, [ [ "$topic/live", 2 ] ]);
    $publisher->publish_released("$topic/live", "n$_") for 1 .. 6;
    $s->wait_for("SELECT queued FROM fleetlog.stat_connection WHERE client_id = 'kept-2'", '5', 'all but the first to wait');
    ask($c, [ [ "$topic/old", 2 ] ], from => 'beginning');
    is(texts($c->completed(3)), 'n1 n2 n3', 'some are taken to their end');
    my $under_way = $c->expect('PUBLISH');
    is($under_way->{payload}, 'n4', '... and one is under way');
    $s->kill9_and_start;
    $s->wait_for_mqtt;
    $c->close;
    connect_publisher();
    $c = client(@session);
    is($c->{connack}{session_present}, 1, 'the session is there');
    my @rest = $c->completed(6);
    is(texts(grep { $_->{payload} =~ /^n/ } @rest), 'n4 n5 n6', 'what was complete does not come again');
    is(texts(grep { $_->{payload} =~ /^o/ } @rest), 'o1 o2 o3', '... and the history does');
    $c->ping;
    ok($c->quiet(0), '... and nothing more');
    $c->disconnect;
}

# ---- M12: losses ----

# Retention was quicker: too old when asked for, and while it is read.
$c = client('gap', properties => [ [ 33, 1 ] ]);
send_all('acme/d1/gap', map { "g$_" } 1 .. 20);
$shard = shard_of('acme/d1/gap');
my $g5 = offset_of('acme/d1/gap', 'g5');
$s->sql("SELECT fleetlog.trim_head('telemetry', $shard, $g5, NULL)");
$ack = ask($c, [ [ 'acme/d1/gap', 1 ] ], from => "$shard:" . ($g5 - 3), position => 'on');
is("@{ $ack->{reasons} }", '1', 'what is too old is granted, from the oldest record on');
like(FleetlogTest::Mqtt::property($ack, 31), qr/^3 records that were asked for are gone/, '... and told');
$first = $c->expect('PUBLISH');
is($first->{payload} . ' ' . told($first, 'fl-gap'), 'g5 3', '... with the first record, too');
$s->wait_for("SELECT dropped FROM fleetlog.stat_connection WHERE client_id = 'gap'", '3', 'the gap to be counted');
$c->disconnect;
gone('gap');
# Some are at hand already; what lies beyond is cut off.
send_all('acme/d1/gap', map { "h$_" } 1 .. 200);
$c = client('gap', properties => [ [ 33, 1 ] ]);
ask($c, [ [ 'acme/d1/gap', 1 ] ], from => 'beginning', position => 'on');
$first = $c->expect('PUBLISH');
is($first->{payload} . defined told($first, 'fl-gap'), 'g5', 'from the beginning nothing is missing');
my $h150 = offset_of('acme/d1/gap', 'h150');
$s->sql("SELECT fleetlog.trim_head('telemetry', $shard, $h150, NULL)");
$c->puback($first->{pid});
@got = ();
while (!@got || $got[-1]{payload} ne 'h200')
{
    my ($m) = $c->messages(1);
    last unless $m;
    push @got, $m;
}
my @gaps = grep { defined told($_, 'fl-gap') } @got;
is(texts(@gaps), 'h150', 'what is cut off while it is read is told with the first record after it');
my ($before) = map { $got[$_ - 1] } grep { $got[$_]{payload} eq 'h150' } 1 .. $#got;
is(told($gaps[0], 'fl-gap'), told($gaps[0], 'fl-offset') - told($before, 'fl-offset') - 1, '... and as many as are missing');
$c->disconnect;

# One that does not read.  Every drop is told, and nothing else: what came and what was dropped is all.
sub drown
{
    my ($topic, $size, $until) = @_;
    my $sent = 0;
    my $pad = 'x' x $size;

    until ($until->($sent))
    {
        $publisher->publish($topic, ++$sent . " $pad", qos => 0) for 1 .. 100;
        $publisher->publish_acked('acme/d1/pace', 'p');
    }
    return $sent;
}
my $dropped = sub { my ($id) = @_; return $s->sql("SELECT coalesce(max(dropped), 0) FROM fleetlog.stat_connection WHERE client_id = '$id'"); };
$c = client('drops');
ask($c, [ [ 'acme/d1/drops', 0 ] ], position => 'on');
my $sent = drown('acme/d1/drops', 8000, sub { $dropped->('drops') > 100 });
$publisher->publish_acked('acme/d1/drops', 'not yet');
my ($lost, $next) = (0, 0);
while (1)
{
    # It reads again: sooner or later one comes before which nothing was lost that has not been told.
    $publisher->publish('acme/d1/drops', 'more', qos => 0) if $c->quiet(0.2);
    my $m = $c->read_packet;
    die 'the stream of messages ended' unless ref $m;
    next unless $m->{name} eq 'PUBLISH';
    my $gap = told($m, 'fl-gap') // 0;
    $lost += $gap;
    last if $m->{payload} eq 'more' && !$gap;
    next unless $m->{payload} =~ /^(\d+) /;
    fail("message $1 after $next, gap $gap") if $1 != $next + 1 + $gap;
    $next = $1;
}
cmp_ok($lost, '>', 100, 'drops are told');
$s->wait_for("SELECT dropped FROM fleetlog.stat_connection WHERE client_id = 'drops'", $lost, 'as many as were dropped');
$c->disconnect;

# ... and who wants to end at the first one is told where to resume: nothing is missing, nothing twice.
for my $rounds (1, 2)
{
    my $topic = "acme/d1/ends/$rounds";
    my $c = client("ends-$rounds", expiry => $rounds == 2 ? 300 : 0, clean => 0);
    ask($c, [ [ $topic, 0 ] ], position => 'on', 'on-drop' => 'end');
    my $sent = drown($topic, 8000, sub { $s->sql("SELECT count(*) FROM fleetlog.stat_connection WHERE client_id = 'ends-$rounds'") eq '0' });
    my @got;
    my $end;
    while (1)
    {
        my $p = $c->read_packet;
        last unless ref $p;
        if ($p->{name} eq 'DISCONNECT') { $end = $p; last; }
        push @got, $p;
    }
    is($end ? $end->{reason} : 'none', 0x97, 'the connection ended with 0x97');
    my $resume = told($end, 'fl-resume');
    like($resume, qr/^0:\d+\@\d+,1:\d+\@\d+$/, '... and was told where to resume');
    is(scalar(grep { defined told($_, 'fl-gap') } @got), 0, '... before anything was missing');
    cmp_ok(scalar @got, '<', $sent, '... and not all had come');
    $c->close;
    $c = client("ends-$rounds", expiry => $rounds == 2 ? 300 : 0, clean => $rounds == 2 ? 0 : 1);
    is($c->{connack}{session_present}, $rounds - 1, $rounds == 2 ? 'its session goes on there' : 'it resumes there');
    ask($c, [ [ $topic, 0 ] ], from => $resume) if $rounds == 1;
    push @got, $c->messages($sent - @got);
    is(join(' ', map { (split / /, $_->{payload})[0] } @got), join(' ', 1 .. $sent), '... without loss or duplicate');
    $c->ping;
    ok($c->quiet(0), '... and nothing more');
    $c->disconnect;
}

# ---- a log that has become another one at the same offsets: an epoch has ended before what was read ----

$shard = shard_of('acme/d1/ends/1');
$tail = $s->sql("SELECT fleetlog.tail('telemetry', $shard)");
$s->sql("INSERT INTO fleetlog.epoch_config (stream, shard, epoch, first_offset, timeline) VALUES ('telemetry'::regclass, $shard, 1, $tail - 1, 1)");
$c = client('epochs');
my $other = (1 - $shard) . ':' . $s->sql("SELECT fleetlog.tail('telemetry', 1 - $shard)");
$ack = ask($c, [ [ 'acme/d1/ends/1', 1 ] ], from => "$shard:$tail\@0,$other");
is("@{ $ack->{reasons} }", '131', 'behind the end of its epoch: refused');
like(told($ack, 'fl-resume'), qr/\b$shard:@{[ $tail - 1 ]}\@0\b/, '... and told to resume at that end');
is("@{ ask($c, [ [ 'acme/d1/ends/1', 1 ] ], from => qq($shard:$tail\@1,$other))->{reasons} }", '1', 'the same offset of the new epoch is good');
$c->disconnect;
$old = client('epochs-4', version => 4);
is("@{ ask($old, [ [ qq(\$s/$shard:$tail\@0,$other/acme/d1/ends/1), 1 ] ])->{reasons} }", '128', 'a client of 3.1.1 is refused');
ok($s->wait_for_log(qr/may not subscribe to .*the log is another one since then/), '... and the log says why');
$old->disconnect;

# ---- clients that people have ----

SKIP:
{
    skip('mosquitto-clients is not installed', 4) unless grep { -x "$_/mosquitto_sub" } split /:/, $ENV{PATH};
    my @common = ('-h', '127.0.0.1', '-p', $s->port, '-u', 'acme/d1', '-P', 'pw-d1', '-q', 1, '-C', 6);

    send_all('acme/d1/tool', 't1', 't2', 't3');
    my %client = (
        'mosquitto_sub 5.0' => [ '-V', 'mqttv5', '-D', 'subscribe', 'user-property', 'fl-from', 'beginning', '-t', 'acme/d1/tool' ],
        'mosquitto_sub 3.1.1' => [ '-V', 'mqttv311', '-t', '$s/beginning/acme/d1/tool' ]);
    my %run;
    for my $name (sort keys %client)
    {
        $run{$name} = { out => '', err => '' };
        $run{$name}{h} = IPC::Run::start([ 'mosquitto_sub', @common, '-i', "tool-$name", @{ $client{$name} } ], '>', \$run{$name}{out}, '2>', \$run{$name}{err}, IPC::Run::timeout($FleetlogTest::TIMEOUT));
        $s->wait_for("SELECT delivered >= 3 FROM fleetlog.stat_connection WHERE client_id = 'tool-$name'", 't', "$name to have its history");
    }
    send_all('acme/d1/tool', 't4', 't5', 't6');
    for my $name (sort keys %client)
    {
        $run{$name}{h}->finish;
        is($run{$name}{h}->result(0), 0, "$name ended by itself") or diag($run{$name}{err});
        is($run{$name}{out}, "t1\nt2\nt3\nt4\nt5\nt6\n", "$name: history, then live");
    }
}

is($s->crashes, '', 'no crash but the one that was meant');
$s->node->stop;
done_testing();
