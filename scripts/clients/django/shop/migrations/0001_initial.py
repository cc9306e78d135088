"""0001_initial.py - as makemigrations writes it"""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Company',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('created', models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name='Tag',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=30, unique=True)),
            ],
        ),
        migrations.CreateModel(
            name='Campaign',
            fields=[
                ('pk', models.CompositePrimaryKey('company_id', 'number', blank=True, editable=False, primary_key=True, serialize=False)),
                ('number', models.IntegerField()),
                ('budget', models.DecimalField(decimal_places=2, default=0, max_digits=12)),
                ('state', models.CharField(default='new', max_length=10)),
                ('company', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='campaigns', to='shop.company')),
            ],
        ),
        migrations.CreateModel(
            name='Ad',
            fields=[
                ('pk', models.CompositePrimaryKey('company_id', 'number', blank=True, editable=False, primary_key=True, serialize=False)),
                ('number', models.IntegerField()),
                ('campaign_number', models.IntegerField(null=True)),
                ('title', models.TextField()),
                ('clicks', models.IntegerField(default=0)),
                ('campaign', models.ForeignObject(from_fields=['company_id', 'campaign_number'], null=True, on_delete=django.db.models.deletion.CASCADE, related_name='ads', to='shop.campaign', to_fields=['company_id', 'number'])),
                ('company', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='ads', to='shop.company')),
            ],
        ),
        migrations.CreateModel(
            name='CompanyTag',
            fields=[
                ('pk', models.CompositePrimaryKey('company_id', 'tag_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('company', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='shop.company')),
                ('tag', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='shop.tag')),
            ],
        ),
        migrations.AddField(
            model_name='company',
            name='tags',
            field=models.ManyToManyField(through='shop.CompanyTag', to='shop.tag'),
        ),
        migrations.AddIndex(
            model_name='campaign',
            index=models.Index(fields=['state'], name='campaign_state'),
        ),
    ]
